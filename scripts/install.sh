#!/usr/bin/env bash
# What `make install` does, in three steps that need different things:
#
#   scripts/install.sh stage BUILD    part of `make`: lays out BUILD/install as a prefix will look, stripped
#   scripts/install.sh place BUILD    part of `make install`: copies that tree to DESTDIR PREFIX
#   scripts/install.sh remove         part of `make uninstall`: takes away what was placed there
#
# Only the first one needs CMake and a compiler's tools. The second one needs no more than coreutils and findutils, because
# it runs as root, whose path is short. It writes nothing into BUILD, so that the next `make` needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

# From the prefix. It has a path for each line, and is itself the last one.
list=share/freehold/installed

die() { printf 'install: %s\n' "$*" >&2; exit 1; }

# Moves the debug information of $1 into .debug/ beside it, where gdb looks for it.
split() {
    local file=$1 folder name
    folder=$(dirname "$file")/.debug
    name=$(basename "$file").debug
    mkdir -p "$folder"
    objcopy --only-keep-debug --compress-debug-sections "$file" "$folder/$name"
    strip --strip-unneeded "$file"
    (cd "$folder" && objcopy --add-gnu-debuglink="$name" "../$(basename "$file")")
    chmod 644 "$folder/$name"
}

# True when anything that is laid out is newer than the tree, or the tree is not whole.
is_stale() {
    local stamp=$1/install/$list
    [ ! -e "$stamp" ] || [ -n "$(find "$1"/freehold "$1"/libfreehold* "$1"/*.cmake "$1"/*.pc include scripts/install.sh LICENSE-* \
        README.md -newer "$stamp" -print -quit)" ]
}

stage() {
    local build=$1 tree=$1/install file
    is_stale "$build" || return 0
    rm -rf "$tree"
    cmake --install "$build" --prefix "$(realpath "$build")/install" >"$build/install.log" ||
        { cat "$build/install.log" >&2; die "cannot lay out $tree"; }
    # It names files of the stage, which is of no use to anybody.
    rm -f "$build/install_manifest.txt"
    split "$tree/bin/freehold"
    while read -r file; do split "$file"; done < <(find "$tree" -type f -name 'libfreehold*.so.*' ! -name '*.debug')
    # What the command starts or preloads is built without.
    find "$tree" -type f \( -name freehold-replayer -o -name libfreehold-record.so \) -exec strip --strip-unneeded {} +
    # An archive cannot have its debug information elsewhere.
    find "$tree" -name 'libfreehold*.a' -exec strip --strip-debug {} +

    local command=$build/freehold share=$tree/share
    "$command" manual --into "$share/man"
    mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d" \
        "$share/doc/freehold"
    "$command" completions bash >"$share/bash-completion/completions/freehold"
    "$command" completions zsh >"$share/zsh/site-functions/_freehold"
    "$command" completions fish >"$share/fish/vendor_completions.d/freehold.fish"
    cp LICENSE-MIT LICENSE-APACHE README.md "$share/doc/freehold/"
    # Last, so that a stage that was interrupted is not taken for a whole one.
    mkdir -p "$share/freehold"
    (cd "$tree" && find . \( -type f -o -type l \) -printf '%P\n' | LC_ALL=C sort && echo "$list") >"$build/installed"
    mv "$build/installed" "$tree/$list"
}

# The folder that files are copied to: DESTDIR is a stage of a packager's, and PREFIX is where they will be.
target() {
    case "${PREFIX:?}" in /*) ;; *) PREFIX=$PWD/$PREFIX ;; esac
    printf '%s%s' "${DESTDIR:-}" "${PREFIX%/}"
}

# The dynamic linker finds a library in its usual folders only after its cache was written again.
refresh_cache() {
    local libraries=$1
    [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] || return 0
    case "$libraries" in
    /lib | /lib/* | /usr/lib | /usr/lib/*) ;;
    *) grep -qsx "$libraries" /etc/ld.so.conf /etc/ld.so.conf.d/*.conf || return 0 ;;
    esac
    PATH=$PATH:/sbin:/usr/sbin ldconfig || true
}

place() {
    local tree=$1/install to path from
    to=$(target)
    [ -e "$tree/$list" ] || die "nothing is built in $1: run 'make' first, as the user who owns it"
    while read -r path; do
        from=$tree/$path
        [ -d "$to/$(dirname "$path")" ] || (umask 022 && mkdir -p "$to/$(dirname "$path")") || die "cannot write to $to"
        if [ -L "$from" ]; then
            ln -sfn "$(readlink "$from")" "$to/$path"
        elif [ -x "$from" ]; then
            install -m 755 "$from" "$to/$path"
        else
            install -m 644 "$from" "$to/$path"
        fi
    done <"$tree/$list"
    path=$(sed -n 's|/libfreehold\.so$||p' "$tree/$list")
    refresh_cache "${PREFIX%/}/$path"
    printf 'installed %s files below %s\n' "$(grep -c . "$tree/$list")" "$to"
}

# Folders go only if they are the project's own, or hold nothing but debug information.
remove() {
    local to path
    to=$(target)
    [ -e "$to/$list" ] || die "there is no installation below $to: $list is missing"
    local own
    own=$(sed -n 's|/[^/]*$||; \,/\([Ff]reehold\|\.debug\)$,p' "$to/$list" | LC_ALL=C sort -ru)
    path=$(sed -n 's|/libfreehold\.so$||p' "$to/$list")
    sed "s|^|$to/|" "$to/$list" | tr '\n' '\0' | xargs -0 rm -f
    while read -r folder; do
        [ ! -d "$to/$folder" ] || rmdir --ignore-fail-on-non-empty "$to/$folder"
    done <<<"$own"
    refresh_cache "${PREFIX%/}/$path"
    printf 'removed from %s\n' "$to"
}

case "${1-}" in
stage) stage "${2:?}" ;;
place) place "${2:?}" ;;
remove) remove ;;
*) die "usage: scripts/install.sh stage|place BUILD, or scripts/install.sh remove" ;;
esac

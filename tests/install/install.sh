#!/usr/bin/env bash
# `make install` takes what `make` has built to a prefix, as root would run it: install.sh ROOT BUILD WORK
#   - with a path that has no compiler, no CMake and no cargo, and without writing anything into BUILD
#   - the command and the libraries are stripped, and their debug information is beside them
#   - manual pages, completions, licences and what a program is built with are there, and a program is built with them
#   - `make uninstall` leaves nothing
set -euo pipefail
root=$1 build=$(realpath "$2") work=$3
. "$root/tests/support/skip.sh"
[ -x "$build/freehold" ] || skip "the command is not built: 'make tool' does that"

rm -rf "$work"
mkdir -p "$work/bin"
work=$(realpath "$work")
fail() { echo "CHECK FAILED: $*"; exit 1; }

for tool in bash sh make install mkdir rmdir dirname ln readlink realpath sed grep id cat stat rm mv xargs sort tr nproc \
    printf find chmod uname; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
# as_root COMMAND...  with the tools of a bare machine only.
as_root() { env -i HOME=/root PATH="$work/bin" "$@"; }
if as_root bash -c 'command -v cc || command -v cmake || command -v cargo'; then fail "the path is not bare"; fi

"$root/scripts/install.sh" stage "$build"
# What does not change in a second is not younger than the mark by chance.
touch "$work/mark"
umask 077 # as some have it for root
for destdir in "" "$work/stage"; do
    prefix=$work/prefix
    [ -z "$destdir" ] || prefix=/opt/freehold
    to=$destdir$prefix
    as_root make -C "$root" --no-print-directory BUILD="$build" PREFIX="$prefix" DESTDIR="$destdir" install
    written=$(find "$build" -path "$work" -prune -o -path "$build/bare" -prune -o -path "$build/tests" -prune -o -path "$build/Testing" -prune -o -path "$build/records" -prune -o \
        -newer "$work/mark" -type f -print)
    [ -z "$written" ] || fail "make install wrote into the build folder: $written"

    for file in bin/freehold lib/libfreehold.so lib/libfreehold-embed.so lib/libfreehold.a lib/pkgconfig/freehold.pc \
        lib/cmake/Freehold/FreeholdConfig.cmake include/freehold/freehold.h share/man/man1/freehold.1 \
        share/man/man1/freehold-run.1 share/man/man3/fh_malloc.3 share/man/man3/fh_free.3 share/man/man7/freehold.7 \
        share/doc/freehold/LICENSE-MIT share/doc/freehold/LICENSE-APACHE share/zsh/site-functions/_freehold; do
        [ -r "$to/$file" ] || { [ "${file#lib/}" != "$file" ] && compgen -G "$to/lib*/*/${file#lib/}" >/dev/null; } ||
            fail "$file is not installed"
    done
    odd=$(find "$to" \( -type d ! -perm 755 -o -type f ! -perm 644 ! -perm 755 \) -print)
    [ -z "$odd" ] || fail "not everybody may read: $odd"
done

to=$work/prefix
libraries=$(dirname "$(find "$to" -name libfreehold.so)")
[ "$(stat -c %s "$to/bin/freehold")" -lt 10000000 ] || fail "the command has 10 MB or more"
for file in "$to/bin/freehold" "$libraries/libfreehold.so" "$libraries/libfreehold-embed.so"; do
    file=$(realpath "$file")
    sections=$(readelf -SW "$file")
    ! grep -qE '\.debug_(info|line)' <<<"$sections" || fail "$file is not stripped"
    grep -q '\.gnu_debuglink' <<<"$sections" || fail "$file does not name its debug information"
    # Not by a pipe: grep ends at its first find, and readelf may not have written all.
    sections=$(readelf -SW "$(dirname "$file")/.debug/$(basename "$file").debug" 2>/dev/null) || true
    grep -q '\.debug_line' <<<"$sections" ||
        fail "the debug information of $file is not beside it"
done

# What the command starts or preloads has no debug information; its symbols are of no use to anybody either.
for file in freehold-replayer libfreehold-record.so; do
    file=$(find "$libraries" -name $file)
    sections=$(readelf -SW "$file")
    ! grep -qE '\.symtab|\.debug_(info|line)' <<<"$sections" || fail "$file is not stripped"
done

# A program with what is installed, and the command of it.
"$to/bin/freehold" doctor -- "$(command -v sort)" >"$work/doctor" || fail "doctor: $(cat "$work/doctor")"
grep -q "library   $libraries/libfreehold.so" "$work/doctor" || fail "it takes another library: $(cat "$work/doctor")"
printf '#include <freehold/freehold.h>\n#include <stdio.h>\nint main(void) { return puts(fh_version()) < 0; }\n' >"$work/one.c"
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046
cc "$work/one.c" -o "$work/one" $(pkg-config --cflags --libs freehold) -Wl,-rpath,"$libraries"
[ "$("$work/one")" = "$(sed -n 's/#define FH_VERSION "\(.*\)"/\1/p' "$root/include/freehold/freehold.h")" ] ||
    fail "a program does not find the installed library"

for destdir in "" "$work/stage"; do
    prefix=$work/prefix
    [ -z "$destdir" ] || prefix=/opt/freehold
    as_root make -C "$root" --no-print-directory BUILD="$build" PREFIX="$prefix" DESTDIR="$destdir" uninstall
    left=$(find "$destdir$prefix" -mindepth 1 \( ! -type d -o -name .debug -o -iname freehold \))
    [ -z "$left" ] || fail "make uninstall leaves $left"
done

# Where nothing was built, root builds nothing in a folder of somebody else.
mkdir "$work/clone"
cp -r "$root/Makefile" "$root/scripts" "$work/clone"
if [ "$(id -u)" = 0 ] && chown nobody "$work/clone"; then
    ! as_root make -C "$work/clone" --no-print-directory install >"$work/refused" 2>&1 || fail "root has built something"
    grep -q "nothing is built in build: run 'make' first, as yourself" "$work/refused" || fail "$(cat "$work/refused")"
    [ ! -e "$work/clone/build" ] || fail "a build folder of root's"
else
    skip_part "only root can be refused as root"
fi
echo "installed, used and removed"

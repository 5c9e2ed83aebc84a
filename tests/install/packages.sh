#!/usr/bin/env bash
# The Debian packages: packages.sh ROOT BUILD WORK
#
#   - they are built, and lintian has nothing to say of them
#   - in a bare Debian they are installed, used and removed, each for what it is for: the command runs a program under the
#     library, a program is built with CMake's and pkg-config's files, freehold-global is switched on and off
#   - nothing is left; and removing freehold-global while it is on switches it off
# Needs root, debhelper, and debootstrap with a mirror. It takes minutes, so that the soak runs it.
set -euo pipefail
root=$1 build=$(realpath "$2") work=$3
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
command -v dh >/dev/null || skip "no debhelper"
[ -x "$build/freehold" ] || skip "the command is not built: 'make tool' does that"

mkdir -p "$work"
work=$(realpath "$work")
version=$(sed -n 's/#define FH_VERSION "\(.*\)"/\1/p' "$root/include/freehold/freehold.h")

if [ "${4:-}" != inside ]; then
    rm -rf "$work/deb"
    DEBFULLNAME="A Packager / Tester" DEBEMAIL=packager@freehold.invalid "$root/scripts/deb.sh" "$build" "$work/deb" >"$work/log" ||
        fail "$(cat "$work/log")"
    for package in libfreehold0 libfreehold-dev freehold freehold-global; do
        compgen -G "$work/deb/${package}_${version}_*.deb" >"$work/log" || fail "no package $package"
    done
    said=$(dpkg-deb -f "$work"/deb/libfreehold0_*.deb Maintainer)
    [ "$said" = "A Packager / Tester <packager@freehold.invalid>" ] || fail "the packager is not the maintainer: $said"
    if command -v lintian >/dev/null; then
        lintian --fail-on error,warning --allow-root "$work"/deb/*.changes >"$work/lintian" 2>&1 || fail "$(cat "$work/lintian")"
    else
        skip_part "no lintian"
    fi
    [ "$(id -u)" = 0 ] || skip "only root can make a bare Debian"
    command -v debootstrap >/dev/null || skip "no debootstrap"
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
    # Kept from one run to the next, without anything of ours in it.
    if [ ! -e "$work/bare-$suite/complete" ]; then
        rm -rf "$work/bare-$suite"
        debootstrap --variant=minbase "$suite" "$work/bare-$suite" >"$work/log" 2>&1 || skip "debootstrap: $(tail -1 "$work/log")"
        touch "$work/bare-$suite/complete"
    fi
    export BARE=$work/bare-$suite
    exec unshare --mount --pid --fork "$0" "$root" "$build" "$work" inside
fi

bare=$work/root
rm -rf "$bare"
cp -a "$BARE" "$bare"
mount -t proc proc "$bare/proc"
mkdir -p "$bare/new/packages"
cp "$work"/deb/*.deb "$bare/new/packages"
inside() { chroot "$bare" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ DEBIAN_FRONTEND=noninteractive "$@"; }
all_files() { (cd "$bare" && find etc usr -not -path 'usr/share/doc*' -not -name '*.cache' -not -path '*/__pycache__*' | LC_ALL=C sort); }
all_files >"$work/before"

install_packages() {
    local files=() package
    for package in "$@"; do files+=("$(cd "$bare" && echo new/packages/"${package}"_"${version}"_*.deb)"); done
    inside dpkg -i "${files[@]/#//}" >"$work/log" 2>&1 || fail "installing $*: $(tail -5 "$work/log")"
}

install_packages libfreehold0 freehold
said=$(inside FREEHOLD=verbose=1 freehold run -- cat /etc/hostname 2>&1) || fail "freehold run: $said"
grep -q '^freehold: version .* is active' <<<"$said" || fail "the command does not run a program under it: $said"
inside freehold doctor >"$work/log" 2>&1 || fail "doctor: $(cat "$work/log")"
# The one line of docs/installing.md for a container or a service, as far as it is one without them.
said=$(inside LD_PRELOAD=libfreehold.so.0 FREEHOLD=verbose=1 cat /etc/hostname 2>&1)
grep -q '^freehold: version .* is active' <<<"$said" || fail "LD_PRELOAD does not find the library by its name: $said"

# Built here, with nothing but what the package for developers brought, and run there.
install_packages libfreehold-dev
libraries=$(cd "$bare" && dirname usr/lib/*/libfreehold.so)
read -ra flags < <(PKG_CONFIG_SYSROOT_DIR=$bare PKG_CONFIG_LIBDIR=$bare/$libraries/pkgconfig pkg-config --cflags --libs freehold)
cc -O1 "$root/tests/install/program.c" -o "$bare/new/program" "${flags[@]}" -pthread || fail "pkg-config: ${flags[*]}"
inside /new/program "$version" dropin >"$work/log" || fail "a program that was built with libfreehold-dev ends with $?"
cmake -S "$root/tests/install/consumer" -B "$work/consumer" -DHOW=package -DVERSION="$version" \
    -DFreehold_DIR="$bare/$libraries/cmake/Freehold" >"$work/log" 2>&1 || fail "find_package: $(tail -5 "$work/log")"

install_packages freehold-global
[ ! -e "$bare/etc/ld.so.preload" ] || fail "installing freehold-global has switched it on"
inside freehold-global enable >"$work/log" || fail "enable"
said=$(inside FREEHOLD=verbose=1 cat /etc/hostname 2>&1)
grep -q 'is active' <<<"$said" || fail "freehold-global is on, and cat does not have it: $said"
inside freehold-global deny cat
said=$(inside FREEHOLD=verbose=1 cat /etc/hostname 2>&1)
! grep -q 'is active' <<<"$said" || fail "cat is denied and has it"
inside freehold doctor 2>&1 | tr -s ' \n' ' ' >"$work/log" || fail "doctor: $(cat "$work/log")"
grep -q 'freehold-global is on' "$work/log" || fail "doctor does not say that it is on: $(cat "$work/log")"

inside dpkg --purge freehold-global >"$work/log" 2>&1 || fail "removing: $(tail -5 "$work/log")"
[ ! -e "$bare/etc/ld.so.preload" ] || fail "removing freehold-global has left it on"
inside dpkg --purge freehold libfreehold-dev libfreehold0 >"$work/log" 2>&1 || fail "removing: $(tail -5 "$work/log")"
all_files | diff "$work/before" - >"$work/left" || fail "left behind: $(cat "$work/left")"
echo "built, installed, used and removed"

#!/usr/bin/env bash
# The packages' libraries do not depend on the folder that they are built in, nor on the caller's CFLAGS:
# package_flags.sh ROOT WORK
#
# debian/rules is run in two copies of the sources, with other CFLAGS in the environment for each, as scripts/release.sh has
# them. One file of the library, compiled with its debug information, must be the same in both. It is the short form
# of what install.release_whole finds in whole packages, in a soak.
set -euo pipefail
root=$1 work=$2
# shellcheck source=tests/support/skip.sh
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
command -v dh >/dev/null || skip "no debhelper"
# A compiler's cache may answer with an object of the other folder.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_GENERATOR MAKEFLAGS MAKELEVEL
export CCACHE_DISABLE=1

# The one file is built as a step of dh's, because dh sets the flags: alone, such a step has others.
object=CMakeFiles/freehold_core.dir/src/api/options.c.o
rm -rf "$work"
for copy in first the-second; do
    mkdir -p "$work/$copy"
    (
        cd "$root"
        cp -r CMakeLists.txt LICENSE-* README.md cmake debian include packaging recorder src "$work/$copy"
        cd "$work/$copy"
        printf 'override_dh_auto_build:\n\tninja -C obj-$(DEB_HOST_GNU_TYPE) %s\n' $object >>debian/rules
        ours=-ffile-prefix-map=$PWD/tree=/freehold
        CFLAGS=$ours CXXFLAGS=$ours CPPFLAGS=-DOURS LDFLAGS=-L$PWD/ours COMMAND=/bin/true debian/rules build
        mv obj-* built
    ) >"$work/log" 2>&1 || fail "building in $copy: $(tail -5 "$work/log")"
    readelf -S "$work/$copy/built/$object" >"$work/log" 2>&1 || fail "no object: $(cat "$work/log")"
    grep -q '\.debug_info' "$work/log" || fail "there is no debug information to compare"
    if grep -E '^CMAKE_(C|CXX|SHARED_LINKER)_FLAGS:.*(/freehold|OURS|/ours)' "$work/$copy/built/CMakeCache.txt"; then
        fail "the caller's flags are those of the packages"
    fi
done
cmp "$work/first/built/$object" "$work/the-second/built/$object" ||
    fail "one source gives two objects: $(readelf --debug-dump=info "$work/first/built/$object" | grep -m1 DW_AT_comp_dir)"
echo "equal in two folders"
rm -rf "$work"

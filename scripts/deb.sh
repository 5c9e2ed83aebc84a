#!/usr/bin/env bash
# The Debian packages, from what `make` has built: scripts/deb.sh [BUILD] [DIR]
#
# The libraries are compiled again, with Debian's flags and for its folders; the command is taken as it is. The packages
# come into DIR (BUILD/deb). Needs debhelper; installs nothing, and is not run as root. Who builds packages for others is
# their maintainer: DEBFULLNAME and DEBEMAIL, as for Debian's own tools.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$(realpath "${1:-build}")
to=$(realpath -m "${2:-$build/deb}")

die() { printf 'deb: %s\n' "$*" >&2; exit 1; }
command -v dh >/dev/null || die "no debhelper: apt-get install debhelper"
[ -x "$build/freehold" ] || die "the command is not built: run 'make' first"

# dpkg-buildpackage writes beside the folder that it builds in, so that is a copy.
version=$(sed -n 's/^#define FH_VERSION  *"\(.*\)"/\1/p' include/freehold/freehold.h)
copy=$to/freehold-$version
rm -rf "$to"
mkdir -p "$copy"
cp -r CMakeLists.txt LICENSE-* README.md cmake debian include packaging recorder src "$copy"
cd "$copy"
if [ -n "${DEBEMAIL-}" ]; then
    maintainer="${DEBFULLNAME:-The Freehold authors} <$DEBEMAIL>"
    sed -i "s/^Maintainer: .*/Maintainer: ${maintainer//[\/&]/\\&}/" debian/control
    sed -i "s/^ -- .*>/ -- ${maintainer//[\/&]/\\&}/" debian/changelog
fi
# The debug information of the command alone takes longer than all else.
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-noautodbgsym}" COMMAND=$build/freehold dpkg-buildpackage -b -us -uc "-j$(nproc)" >"$to/build.log" 2>&1 ||
    { tail -30 "$to/build.log" >&2; die "not built; all of it is in $to/build.log"; }
cd "$root"
rm -rf "$copy"
find "$to" -name '*.deb' | sort

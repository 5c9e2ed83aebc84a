#!/usr/bin/env bash
# Builds everything that a release consists of: scripts/release.sh [--short] TAG [DIST]
#
#   freehold-VERSION.tar.gz                 the sources, as the tag has them
#   freehold-VERSION-linux-ARCH.tar.gz      what `make install` places, to be unpacked over a prefix
#   freehold-VERSION-amalgamation.tar.gz    the library as one C file and its header
#   *.deb                                   Debian's packages
#   freehold-VERSION.cdx.json               what the command is linked with, as a CycloneDX bill of materials
#   SHA256SUMS                              of all these
#
# DIST is `dist` when it is not given. Nothing but the commit and the tools decides the bytes: two runs give equal files, in
# whatever folder, at whatever time. Time stamps are the commit's, and no path of the machine is in a file.
#
# A TAG other than vVERSION gives a trial, whose names carry the commit. With --short there are only the sources and the
# amalgamation: seconds instead of minutes, for the test of this script.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
# A compiler's cache may answer with objects of another folder, whose debug information and build number are others.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER RUSTC_WRAPPER
export CCACHE_DISABLE=1

say() { printf 'release: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

short=no
[ "${1-}" != --short ] || { short=yes; shift; }
[ $# -ge 1 ] || die "usage: scripts/release.sh [--short] TAG [DIST]"
commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "there is no tag $1"
dist=${2:-dist}
mkdir -p "$dist" "${BUILD:-build}"
dist=$(realpath "$dist")
[ -z "$(ls -A "$dist")" ] || die "$dist is not empty"

# A new folder each time, because a path that got into a file shall be seen.
work=$(mktemp -d "$(realpath "${BUILD:-build}")/release.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir "$tree"
git archive --format=tar "$commit" | tar -x -C "$tree"

version=$(sed -n 's/^#define FH_VERSION  *"\(.*\)"/\1/p' "$tree/include/freehold/freehold.h")
if [ "$(git rev-parse --verify --quiet "v$version^{commit}" || true)" != "$commit" ]; then
    version=$version+$(git rev-parse --short=9 "$commit")
    say "$1 is not v${version%+*}: this is a trial, named $version"
fi
name=freehold-$version

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
export CFLAGS="-ffile-prefix-map=$tree=/freehold" CXXFLAGS="-ffile-prefix-map=$tree=/freehold"
export RUSTFLAGS="--remap-path-prefix=$tree=/freehold --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates"
unset BUILD MAKEFLAGS MAKELEVEL DESTDIR DEBEMAIL DEBFULLNAME CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER

# pack FILE FOLDER  packs what is in a folder, in an order and with owners and times that no machine decides.
pack() {
    tar --create --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX -C "$2" . | gzip --no-name -9 >"$dist/$1"
    say "$1"
}

# Runs what says much; only when it fails is it of interest.
quietly() { "$@" >"$work/log" 2>&1 </dev/null || { tail -n 40 "$work/log" >&2; die "failed: $*"; }; }

sources() {
    git archive --format=tar --prefix="$name/" "$commit" | gzip --no-name -9 >"$dist/$name.tar.gz"
    say "$name.tar.gz"
}

amalgamation() {
    [ -e "$tree/scripts/amalgamate.py" ] || { say "left out: the amalgamation, this tag has no scripts/amalgamate.py"; return 0; }
    quietly python3 "$tree/scripts/amalgamate.py" "$work/amalgamation"
    cp "$tree"/LICENSE-* "$work/amalgamation/"
    pack "$name-amalgamation.tar.gz" "$work/amalgamation"
}

binaries() {
    say "building, which takes some minutes"
    quietly make -C "$tree" all PREFIX=/usr/local
    pack "$name-linux-$(uname -m).tar.gz" "$tree/build/install"
}

packages() {
    [ -e "$tree/scripts/deb.sh" ] || { say "left out: Debian's packages, this tag has no scripts/deb.sh"; return 0; }
    quietly "$tree/scripts/deb.sh" "$tree/build" "$work/debs"
    cp "$work"/debs/*.deb "$dist/"
    say "$(cd "$dist" && echo ./*.deb)"
}

# The libraries are linked with the C library alone; the command's crates are what there is to list.
bill() {
    local tool=cargo-cyclonedx
    if ! command -v "$tool" >/dev/null 2>&1; then
        say "installing $tool into the work folder"
        RUSTFLAGS="" quietly cargo install --locked --root "$work/tools" "$tool" --version 0.5.9
        PATH=$PATH:$work/tools/bin
    fi
    (cd "$tree/tools/freehold" && quietly cargo cyclonedx --format json --spec-version 1.5 --no-build-deps \
        --target "$(rustc -vV | sed -n 's/^host: //p')" --override-filename bill)
    sed "s|$tree|/freehold|g" "$tree/tools/freehold/bill.json" >"$dist/$name.cdx.json"
    say "$name.cdx.json"
}

sources
amalgamation
if [ "$short" = no ]; then
    binaries
    packages
    bill
fi
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
say "$(($(grep -c . "$dist/SHA256SUMS"))) files, and their sums in $dist/SHA256SUMS"

#!/usr/bin/env bash
# A program that uses the library, built in each way that is offered: consumers.sh KIND ROOT BUILD WORK
#
#   package       find_package, from a prefix that holds what `make install` brings
#   pkg-config    the same prefix, with the compiler alone; shared and static
#   subdirectory  add_subdirectory of the sources; the project keeps its own settings
#   fetch         FetchContent, with the sources in place of a download
#   conan         the recipe of packaging/conan, which makes a package of the sources
#   vcpkg         the port of packaging/vcpkg, the same; VCPKG_ROOT says where vcpkg is. Without it there are stand-ins
set -euo pipefail
kind=$1 root=$2 build=$(realpath "$3") work=$4
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
version=$(sed -n 's/#define FH_VERSION "\(.*\)"/\1/p' "$root/include/freehold/freehold.h")

rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")

# A prefix of its own for each: nothing of the build folder is found but through it.
place() {
    cmake --install "$build" --prefix "$work/prefix" >"$work/place.log" || fail "$(cat "$work/place.log")"
    rm -f "$build/install_manifest.txt"
}

configure() { cmake -S "$root/tests/install/consumer" -B "$work/build" -G Ninja -DHOW="$kind" -DVERSION="$version" "$@"; }

build_and_run() {
    configure "$@" >"$work/log" 2>&1 || fail "configuring: $(cat "$work/log")"
    cmake --build "$work/build" >"$work/log" 2>&1 || fail "building: $(cat "$work/log")"
    ! grep -i 'warning' "$work/log" || fail "a warning for somebody else's project"
    ctest --test-dir "$work/build" --output-on-failure --no-tests=error >"$work/log" 2>&1 || fail "$(cat "$work/log")"
}

# What the project had is as it was, its build type among it, and what is the developers' is off.
keeps_settings() {
    local wrong
    [ "$(sed -n 's/^CMAKE_BUILD_TYPE:.*=//p' "$work/build/CMakeCache.txt")" = "$1" ] || fail "the build type is another one"
    wrong=$(grep -E '^(CMAKE_C_FLAGS_RELEASE:.*-O2|FREEHOLD_(TESTS|WERROR|INSTALL):BOOL=ON)' \
        "$work/build/CMakeCache.txt") || true
    [ -z "$wrong" ] || fail "settings: $wrong"
    ! grep -E 'Werror|/tests/(conformance|stress)' "$work/build/build.ninja" >"$work/log" || fail "$(head -1 "$work/log")"
    cmake --install "$work/build" --prefix "$work/prefix" >"$work/log"
    wrong=$(find "$work/prefix" -type f ! -name program-freehold)
    [ -z "$wrong" ] || fail "installed with the project: $wrong"
    grep '^ *FLAGS = .*-fvisibility=hidden' "$work/build/build.ninja" | grep -vE -- '-O2( -[^O ]+)*$' >"$work/log" || return 0
    fail "not the library's own optimisation: $(head -1 "$work/log")"
}

# with_pkg_config NAME TAKEN [FLAG...]
with_pkg_config() {
    local name=$1 taken=$2 flags
    shift 2
    read -ra flags < <(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config "$@" --cflags --libs "$name = $version")
    if [ "${1:-}" = --static ]; then flags=("-Wl,-Bstatic" "${flags[@]}" "-Wl,-Bdynamic"); else flags+=("-Wl,-rpath,$libraries"); fi
    cc -O2 "$root/tests/install/program.c" -o "$work/program" "${flags[@]}" -pthread
    "$work/program" "$version" "$taken" || fail "$name $*: the program ends with $?"
    [ -n "${1:-}" ] || readelf -dW "$work/program" | grep -q "NEEDED.*lib$name\.so\.0" || fail "$name: linked with something else"
}

case $kind in
package)
    place
    build_and_run -DCMAKE_PREFIX_PATH="$work/prefix"
    # Another major version is refused.
    rm -rf "$work/build"
    ! configure -DVERSION=7.0 -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || fail "version 7.0 was found"
    grep -q 'compatible with' "$work/log" || fail "refused for another reason: $(cat "$work/log")"
    ;;
pkg-config)
    command -v pkg-config >/dev/null || skip "no pkg-config"
    place
    libraries=$(dirname "$(find "$work/prefix" -name libfreehold.so)")
    with_pkg_config freehold dropin
    with_pkg_config freehold-embed embed
    with_pkg_config freehold dropin --static
    with_pkg_config freehold-embed embed --static
    ;;
subdirectory)
    build_and_run -DFREEHOLD_SOURCE="$root"
    keeps_settings ""
    ;;
fetch)
    build_and_run -DFETCHCONTENT_SOURCE_DIR_FREEHOLD="$root" -DCMAKE_BUILD_TYPE=Release
    keeps_settings Release
    ;;
conan)
    command -v conan >/dev/null || skip "no conan"
    # It leaves presets where it is called.
    cd "$work"
    export CONAN_HOME=$work/conan
    { conan profile detect && conan create "$root/packaging/conan"; } >"$work/log" 2>&1 || fail "$(tail -20 "$work/log")"
    conan install --requires="freehold/$version" -g CMakeToolchain -of "$work/generated" >"$work/log" 2>&1 ||
        fail "$(tail -20 "$work/log")"
    kind=package
    build_and_run -DCMAKE_TOOLCHAIN_FILE="$work/generated/conan_toolchain.cmake" -DCMAKE_BUILD_TYPE=Release
    kind=conan
    ;;
vcpkg)
    vcpkg=${VCPKG_ROOT:+$VCPKG_ROOT/vcpkg}
    if [ -x "${vcpkg:=$(command -v vcpkg || true)}" ]; then
        "$vcpkg" install freehold --overlay-ports="$root/packaging/vcpkg" --x-install-root="$work/installed" >"$work/log" 2>&1 ||
            fail "$(tail -20 "$work/log")"
    else
        cmake -DPORT_DIR="$root/packaging/vcpkg/freehold" -DCURRENT_PACKAGES_DIR="$work/installed/x64-linux" \
            -DCURRENT_BUILDTREES_DIR="$work/trees" -DVERSION="$version" -P "$root/tests/install/vcpkg.cmake" >"$work/log" 2>&1 ||
            fail "$(tail -20 "$work/log")"
        skip_part "no vcpkg: the port is run with stand-ins for its functions"
    fi
    kind=package
    build_and_run -DCMAKE_PREFIX_PATH="$(find "$work/installed" -mindepth 1 -maxdepth 1 -name '*-linux*')"
    kind=vcpkg
    ;;
*) echo "unknown kind $kind" >&2; exit 2 ;;
esac
echo "$kind: built and run"

#!/usr/bin/env bash
# Links one program with the static library in each way that people do, and runs it:
#   static_link.sh KIND SOURCE-ROOT WORK-FOLDER [LIBFREEHOLD.A]
# KIND: archive (a dynamic program that takes libfreehold.a), static (glibc, -static), static-pie,
#       musl (the library's objects are built again with musl-gcc, and linked both statically and not).
set -euo pipefail
kind=$1 root=$2 work=$3 archive=${4:-}
. "$(dirname "$0")/../support/skip.sh"
program=$root/tests/life/static_program.c
mkdir -p "$work"
flags=(-std=gnu11 -D_GNU_SOURCE -O1 -g -fno-builtin -pthread)

# The library's own objects, compiled as its README says that one may: every C file of src/, one command.
build_for_musl() {
    command -v musl-gcc >/dev/null || skip "no musl-gcc (package musl-tools)"
    local source object
    rm -rf "$work/objects"
    mkdir -p "$work/objects"
    for source in $(find "$root/src" -name "*.c" | sort); do
        case "$source" in */\** | */windows*.c | */darwin*.c | */macos*.c | */api/new*.c | */api/global.c | */linux_global.c) continue ;; esac
        object=$work/objects/$(echo "${source#"$root"/src/}" | tr / _).o
        musl-gcc -std=c11 -O2 -g -fPIC -fvisibility=hidden -fno-builtin -D_GNU_SOURCE \
            -I"$root/include" -I"$root/src" -c "$source" -o "$object"
    done
    archive=$work/libfreehold-musl.a
    rm -f "$archive"
    ar rcs "$archive" "$work"/objects/*.o
}

# try NAME COMPILER HOW-TO-LINK...
try() {
    local name=$1 compiler=$2 out=$work/program-$1 what
    shift 2
    "$compiler" "${flags[@]}" "$@" "$program" "$archive" -o "$out"
    # A linker that took malloc from the C library, too, would have two allocators in one program.
    if nm "$out" | grep -q ' [TW] _int_malloc$'; then
        echo "$name: the C library's own malloc was linked in as well" >&2
        exit 1
    fi
    timeout 60 "$out" | grep 'Freehold .* inside'

    # The shapes in which glibc's own tests have another malloc: without a thread, and with one.
    "$compiler" "${flags[@]}" "$@" "$root/tests/conformance/interposed.c" "$archive" -o "$work/interposed-$name"
    timeout 60 "$work/interposed-$name" | grep 'Freehold .* inside'

    # The library's own thread, made by the C library that is linked. The test names fh_thread_flush weakly, which alone takes
    # nothing out of an archive.
    "$compiler" "${flags[@]}" "$@" -Wl,-u,fh_thread_flush "$root/tests/purge/background.c" "$archive" -o "$work/background-$name"
    for what in sleep fork; do FREEHOLD=purge=background timeout 200 "$work/background-$name" "$what"; done
}

# Does the compiler link a program of nothing in this way? Where the C library has no such form there is nothing to try.
links() { echo 'int main(void) { return 0; }' | gcc "$@" -x c - -o "$work/nothing" 2>"$work/nothing.log"; }

case $kind in
archive) try archive gcc ;;
static)
    links -static || skip "no static C library"
    try static gcc -static
    ;;
static-pie)
    links -static-pie -fPIE || skip "no static-pie"
    try static-pie gcc -static-pie -fPIE
    ;;
musl)
    build_for_musl
    try musl-static musl-gcc -static
    try musl-dynamic musl-gcc
    ;;
*) echo "unknown kind $kind" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# Links one program with the static library in each way that people do, and runs it:
#   static_link.sh KIND SOURCE-ROOT WORK-FOLDER [LIBFREEHOLD.A]
# KIND: archive (a dynamic program that takes libfreehold.a), static (glibc, -static), static-pie,
#       musl-static and musl-dynamic (the library's objects are built again with musl-gcc).
set -euo pipefail
kind=$1 root=$2 work=$3 archive=${4:-}
. "$(dirname "$0")/../support/skip.sh"
program=$root/tests/life/static_program.c
mkdir -p "$work"

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

flags=(-std=gnu11 -D_GNU_SOURCE -O1 -g -fno-builtin -pthread)
out=$work/program-$kind
case $kind in
archive) gcc "${flags[@]}" "$program" "$archive" -o "$out" ;;
static) gcc "${flags[@]}" -static "$program" "$archive" -o "$out" || skip "no static C library" ;;
static-pie) gcc "${flags[@]}" -static-pie -fPIE "$program" "$archive" -o "$out" || skip "no static-pie" ;;
musl-static) build_for_musl && musl-gcc "${flags[@]}" -static "$program" "$archive" -o "$out" ;;
musl-dynamic) build_for_musl && musl-gcc "${flags[@]}" "$program" "$archive" -o "$out" ;;
*) echo "unknown kind $kind" >&2; exit 2 ;;
esac
# A linker that took malloc from the C library, too, would have two allocators in one program.
if nm "$out" | grep -q ' [TW] _int_malloc$'; then
    echo "the C library's own malloc was linked in as well" >&2
    exit 1
fi
timeout 60 "$out" | grep 'Freehold .* inside'

# The library's own thread, made by the C library that is linked.
compiler=gcc how=()
case $kind in
musl-*) compiler=musl-gcc ;;
esac
case $kind in
static | musl-static) how=(-static) ;;
static-pie) how=(-static-pie -fPIE) ;;
esac
# The shapes in which glibc's own tests have another malloc: without a thread, and with one.
"$compiler" "${flags[@]}" "${how[@]}" "$root/tests/conformance/interposed.c" "$archive" -o "$work/interposed-$kind"
timeout 60 "$work/interposed-$kind" | grep 'Freehold .* inside'

# The test names fh_thread_flush weakly, which alone takes nothing out of an archive.
"$compiler" "${flags[@]}" "${how[@]}" -Wl,-u,fh_thread_flush "$root/tests/purge/background.c" "$archive" \
    -o "$work/background-$kind"
for what in sleep fork; do FREEHOLD=purge=background timeout 200 "$work/background-$kind" "$what"; done

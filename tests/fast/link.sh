#!/usr/bin/env bash
# What links with freehold/fast.h and what must not: link.sh SOURCE-ROOT WORK-FOLDER EMBED.A EMBED.SO COMPILER
#   with the static library, in each way to compile: links and runs
#   with a header of another layout, and with the shared library: does not link, and the linker names what is missing
#   with the shared library and FH_FAST_CALLS: links and runs
set -euo pipefail
root=$1 work=$2 archive=$3 shared=$4 compiler=$5
. "$(dirname "$0")/../support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
rm -rf "$work"
mkdir -p "$work/other/freehold"
flags=(-std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -O2 -pthread)
program=$root/tests/fast/pair.c
out=$work/program

for how in "" "-fPIE -pie" "-fPIC" "-no-pie -fno-pie" "-flto" "-Wl,--gc-sections -ffunction-sections"; do
    read -ra words <<<"$how"
    "$compiler" "${flags[@]}" "${words[@]}" -I"$root/include" "$program" "$archive" -o "$out" 2>"$work/said" ||
        fail "does not link with ${how:-no flags}: $(cat "$work/said")"
    "$out" exact 1000 >"$work/printed" || fail "does not run with ${how:-no flags}"
done
"$compiler" "${flags[@]}" -static -I"$root/include" "$program" "$archive" -o "$out" 2>"$work/said" ||
    skip_part "static" "no static C library"

number=$(sed -n 's/^#define FH_FAST_LAYOUT \([0-9]*\)$/\1/p' "$root/include/freehold/fast.h")
[ -n "$number" ] || fail "fast.h has no layout"
cp "$root"/include/freehold/* "$work/other/freehold/"
sed -i "s/\bfh_fast_${number}_/fh_fast_$((number + 1))_/g; s/^#define FH_FAST_LAYOUT .*/#define FH_FAST_LAYOUT $((number + 1))/" \
    "$work/other/freehold/fast.h"
! "$compiler" "${flags[@]}" -I"$work/other" "$program" "$archive" -o "$out" 2>"$work/said" || fail "another layout was linked"
grep -q "fh_fast_$((number + 1))_malloc" "$work/said" || fail "the linker says something else: $(cat "$work/said")"

! "$compiler" "${flags[@]}" -I"$root/include" "$program" "$shared" -o "$out" 2>"$work/said" || fail "the shared library was linked"
grep -q "fh_fast_${number}_malloc" "$work/said" || fail "the linker says something else: $(cat "$work/said")"
"$compiler" "${flags[@]}" -DFH_FAST_CALLS -I"$root/include" "$program" "$shared" "-Wl,-rpath,$(dirname "$shared")" -o "$out"
"$out" exact 1000 || fail "does not run with FH_FAST_CALLS"
echo "layout $number: linked and refused as it should be"

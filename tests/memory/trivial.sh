#!/usr/bin/env bash
# What Freehold costs a program that hardly allocates: at most 250 KiB of private dirty memory more than the
# system's allocator.  trivial.sh TRIVIAL-PROGRAM LIBFREEHOLD.SO; medians of eleven runs, taken in turn.
set -euo pipefail
program=$1 library=$2
with=() without=()
for _ in 1 2 3 4 5 6 7 8 9 10 11; do
    with+=("$(LD_PRELOAD=$library "$program")")
    without+=("$("$program")")
done
median() { printf '%s\n' "$@" | sort -n | sed -n 6p; }
a=$(median "${with[@]}") b=$(median "${without[@]}")
echo "private dirty: $a KiB with Freehold, $b KiB without, $((a - b)) KiB more (at most 250)"
[ "$a" -gt 0 ] && [ "$b" -gt 0 ] && [ $((a - b)) -le 250 ]

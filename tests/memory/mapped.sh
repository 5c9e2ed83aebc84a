#!/usr/bin/env bash
# What every program needs of the library is together (cmake/order.ld), and begins where the kernel begins to map around a page. So in one
# that hardly allocates at most 30 % of its code and 150 KiB of all that is the library's become resident, without the heap.
# mapped.sh TRIVIAL-PROGRAM LIBFREEHOLD.SO IN-ORDER; medians of 21 runs, because a loader may put the library elsewhere.
set -euo pipefail
program=$1 library=$2 in_order=$3
here=$(dirname "$0")
# shellcheck source=tests/support/skip.sh
. "$here/../support/skip.sh"
[ -n "$in_order" ] || skip "this linker takes no list of what comes first"
shares=() wholes=()
for _ in $(seq 21); do
    read -r resident all whole < <(LD_PRELOAD=$library "$program" code)
    [ "$all" -gt 0 ] || { echo "CHECK FAILED: the program does not see the library's code"; exit 1; }
    shares+=($((resident * 100 / all)))
    wholes+=("$whole")
done
median() { printf '%s\n' "$@" | sort -n | sed -n 11p; }
share=$(median "${shares[@]}") whole=$(median "${wholes[@]}")
echo "of $all KiB of code $share % are resident (at most 30), of all that is the library's $whole KiB (at most 150)"
[ "$share" -gt 0 ] && [ "$share" -le 30 ] && [ "$whole" -gt "$resident" ] && [ "$whole" -le 150 ]

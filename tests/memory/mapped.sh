#!/usr/bin/env bash
# What every program needs of the library's code is together, so at most three quarters of it become resident in one that hardly
# allocates. mapped.sh TRIVIAL-PROGRAM LIBFREEHOLD.SO; the median of 21 runs, because where the library lies decides how much the kernel
# maps around a page.
set -euo pipefail
program=$1 library=$2
shares=()
for _ in $(seq 21); do
    read -r resident all < <(LD_PRELOAD=$library "$program" code)
    [ "$all" -gt 0 ] || { echo "CHECK FAILED: the program does not see the library's code"; exit 1; }
    shares+=($((resident * 100 / all)))
done
share=$(printf '%s\n' "${shares[@]}" | sort -n | sed -n 11p)
echo "of $all KiB of code $share % are resident (at most 75)"
[ "$share" -gt 0 ] && [ "$share" -le 75 ]

#!/bin/bash
# What options cost real programs, in instructions that callgrind counts: option_price.sh BUILD OPTIONS...
#
# Each line: program, instructions under Freehold, and what each of the OPTIONS (as the variable FREEHOLD has them) adds in %.
# What the kernel does is not counted. Options that look at the clock do more here than in life, because time passes slowly.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
shift
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null PYTHONHASHSEED=0

counted() {
    options=$1
    shift
    FREEHOLD=$options LD_PRELOAD="$build/libfreehold.so" \
        valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 </dev/null | sed -n 's/.*Collected : //p'
}

compare() {
    name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        echo "$name: skipped, because there is no $1"
        return
    fi
    line="$name $(counted verbose=0 "$@")"
    for set in "${sets[@]}"; do line="$line $set $(counted "$set" "$@")"; done
    echo "$line" | awk '{ printf "%s: %d instructions", $1, $2
        for (i = 3; i < NF; i += 2) printf "; %s %.1f %%", $i, 100 * ($(i + 1) / $2 - 1)
        print "" }'
}

sets=("$@")
compare git git -C "$root" --no-pager log --stat -n 40
compare lua lua5.4 "$root/bench/real/tables.lua"
compare bc bc -q "$root/bench/real/factors.bc"

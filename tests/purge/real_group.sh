#!/usr/bin/env bash
# A control group of the kernel's with 64 MiB of memory, and a program in it:  real_group.sh PROGRAM
# Aware of the group, the program lives. The same program that does not see the group and gives nothing back is killed,
# so it is the group's limit that is tested here and not a program that needs too little.
set -euo pipefail
program=$1
. "$(dirname "$0")/../support/skip.sh"
. "$(dirname "$0")/../support/memory_group.sh"
make_group
limit_group $((64 << 20))

# run ENVIRONMENT...: the program's status
run() {
    local status=0
    in_group env "$@" "$program" || status=$?
    echo "with ${*:-nothing set}: status $status" >&2
    return $status
}

run
for purge in budget eager lazy background; do run FREEHOLD=purge=$purge; done
# Blind, by the door that tests have, and lazy: 128 + 9.
status=0
run FREEHOLD=purge=lazy FREEHOLD_GROUP_ROOT=/nonexistent || status=$?
[ $status = 137 ] || { echo "CHECK FAILED: blind and lazy, the program was not killed but ended with $status" >&2; exit 1; }

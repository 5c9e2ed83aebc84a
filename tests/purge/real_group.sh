#!/usr/bin/env bash
# A control group of the kernel's with 64 MiB of memory, and a program in it:  real_group.sh PROGRAM
# Aware of the group, the program lives. The same program that does not see the group and gives nothing back is killed,
# so it is the group's limit that is tested here and not a program that needs too little.
set -euo pipefail
program=$1
. "$(dirname "$0")/../support/skip.sh"

# The own group of version 1 if the memory controller is there, else that of version 2.
if own=$(grep -m1 -E '^[0-9]+:([^:]*,)?memory(,[^:]*)?:' /proc/self/cgroup); then
    above=/sys/fs/cgroup/memory${own#*:*:} limit=memory.limit_in_bytes swap=memory.memsw.limit_in_bytes
else
    own=$(grep -m1 '^0::' /proc/self/cgroup) || skip "this process is in no control group"
    above=/sys/fs/cgroup${own#*:*:} limit=memory.max swap=memory.swap.max
fi
[ -d "$above" ] || above=$(echo "$above" | grep -oE '^/sys/fs/cgroup(/memory)?') # in a container: the root is the own one
group=$above/freehold-test-$$
mkdir "$group" 2>/dev/null || skip "no control group can be made in $above"
trap 'rmdir "$group" 2>/dev/null || { sleep 1; rmdir "$group"; }' EXIT
[ -w "$group/$limit" ] || skip "the memory controller is not passed on to groups in $above"
echo $((64 << 20)) >"$group/$limit"
if [ "$limit" = memory.max ]; then
    { echo 0 >"$group/$swap"; } 2>/dev/null || true
else
    { echo $((64 << 20)) >"$group/$swap"; } 2>/dev/null || true
fi

# in_group ENVIRONMENT...: the program's status
in_group() {
    local status=0
    (echo "$BASHPID" >"$group/cgroup.procs" && exec env "$@" "$program") || status=$?
    echo "with ${*:-nothing set}: status $status" >&2
    return $status
}

in_group
for purge in budget eager lazy background; do in_group FREEHOLD=purge=$purge; done
# Blind, by the door that tests have, and lazy: 128 + 9.
status=0
in_group FREEHOLD=purge=lazy FREEHOLD_GROUP_ROOT=/nonexistent || status=$?
[ $status = 137 ] || { echo "CHECK FAILED: blind and lazy, the program was not killed but ended with $status" >&2; exit 1; }

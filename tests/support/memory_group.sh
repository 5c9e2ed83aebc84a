# Sourced by tests that run programs in a control group of the kernel's with a memory limit, after support/skip.sh.

# Makes a group inside the own one: of version 1 if the memory controller is there, else of version 2. It goes with the script.
make_group() {
    local own above
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
}

# limit_group BYTES. Version 1 counts memory and swap together, and that limit is never below the other.
limit_group() {
    if [ "$limit" = memory.max ]; then
        { echo 0 >"$group/$swap"; } 2>/dev/null || true
        echo "$1" >"$group/$limit"
    else
        { echo -1 >"$group/$swap"; } 2>/dev/null || true
        echo "$1" >"$group/$limit"
        { echo "$1" >"$group/$swap"; } 2>/dev/null || true
    fi
}

# in_group COMMAND...: runs it in the group; its status, which is 137 when the kernel has killed it.
in_group() { (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@"); }

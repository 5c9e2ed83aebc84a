#!/usr/bin/env bash
# chronyd with its system call filter on, which ends it at a call that it does not know. It does not touch the clock, and
# answers chronyc on a port of loopback.
. "$(dirname "$0")/common.sh"
need chronyd chrony
need chronyc chrony
need python3 python3
[ "$(id -u)" = 0 ] || skip "chronyd is to be started by root"
. "$(dirname "$0")/servers.sh"
port=$(free_port)
printf 'local stratum 8\nport 0\ncmdport %s\nbindcmdaddress 127.0.0.1\nallow 127.0.0.1\npidfile %s\nbindcmdaddress /\n' "$port" "$work/pid" >"$work/chrony.conf"
ask() { chronyc -n -h 127.0.0.1 -p "$port" "$@"; }
is_up() { ask activity; }
served() {
    start "$2" "$work/server.$1" chronyd -d -x -F 1 -u root -f "$work/chrony.conf"
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    for _ in $(seq 40); do
        ask -m activity sources sourcestats 'accheck 127.0.0.1' rtcdata || true
    done >"$work/chrony.$1" 2>&1
    kill -0 "$server" || { tail -n 5 "$work/server.$1"; die "it has ended"; }
    end_server TERM
}
served without ""
served with "$library"
same_answers chrony

#!/usr/bin/env bash
# tor in its own sandbox: from then on a system call that its filter does not know ends it. It stays off the network, and
# answers on its control socket.
. "$(dirname "$0")/common.sh"
need tor tor
need python3 python3
. "$(dirname "$0")/servers.sh"
folder=$(mktemp -d /tmp/freehold-tor-XXXXXX)
trap 'end_server KILL; rm -rf "$folder"' EXIT
cat >"$work/ask.py" <<'PY'
import socket
import sys

questions = ["PROTOCOLINFO 1", "AUTHENTICATE", "GETINFO version", "GETINFO config/names", "GETINFO info/names", "GETINFO events/names",
             "GETINFO signal/names", "GETCONF SocksPort", "GETINFO features/names", "GETINFO status/bootstrap-phase"]
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(20)
    s.connect(sys.argv[1])
    file = s.makefile("rwb")
    for question in questions + questions[2:] * int(sys.argv[2]) + sys.argv[3:] + ["QUIT"]:
        file.write(question.encode() + b"\r\n")
        file.flush()
        while True:
            line = file.readline()
            print(line.decode().rstrip())
            if line[3:4] == b" " or not line:
                break
        if not line:
            break
PY
is_up() { python3 "$work/ask.py" "$folder/control" 0; }
served() {
    mkdir -m 700 "$folder/data.$1"
    rm -f "$folder/control"
    start "$2" "$work/server.$1" tor -f /nonexistent --ignore-missing-torrc --DataDirectory "$folder/data.$1" --Sandbox 1 \
        --DisableNetwork 1 --SocksPort 0 --ControlPort "unix:$folder/control" --Log "notice stdout"
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    for _ in 1 2 3 4; do timeout 60 python3 "$work/ask.py" "$folder/control" 200 || die "it does not answer"; done >"$work/tor.$1"
    kill -0 "$server" || die "it has ended"
    # Not by a signal, to which it may answer half a minute later.
    python3 "$work/ask.py" "$folder/control" 0 "SIGNAL HALT" >/dev/null 2>&1 || true
    wait "$server" || die "it ended with $?"
    server=
}
served without ""
grep -qi 'sandbox.*not\|does not support.*sandbox' "$work/server.without" && skip "this tor has no sandbox"
served with "$library"
same_answers tor

#!/usr/bin/env bash
# What scripts/quietly.sh shows of a command that says much: quietly.sh ROOT WORK
set -euo pipefail
root=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
fail() { echo "CHECK FAILED: $*"; exit 1; }
quietly() { "$root/scripts/quietly.sh" "$work/log" 'Building' "$@"; }

# Hundreds of lines are one, and the log has them all.
quietly seq 700 >"$work/out" 2>"$work/err"
[ ! -s "$work/out" ] || fail "on stdout: $(head -n 3 "$work/out")"
[ "$(wc -l <"$work/err")" = 1 ] || fail "more than a line: $(cat "$work/err")"
grep -q "^Building: the log is $work/log$" "$work/err" || fail "$(cat "$work/err")"
[ "$(wc -l <"$work/log")" = 700 ] || fail "the log has $(wc -l <"$work/log") lines"

# A failure keeps its code, and shows the end of what was said.
code=0
quietly sh -c 'echo "error: no such thing" >&2; exit 7' 2>"$work/err" || code=$?
[ "$code" = 7 ] || fail "ended with $code"
grep -q '^error: no such thing$' "$work/err" || fail "$(cat "$work/err")"
grep -q "^Building failed; all of it is in $work/log$" "$work/err" || fail "$(cat "$work/err")"

# On a terminal there is a bar, which knows the steps of ninja and of cargo, and is gone at the end.
steps='echo "[21/86] Building C object"; sleep 1.2; printf "\r    Building [==> ] 93/186: libc\r"; sleep 1.2'
cat >"$work/terminal.py" <<'PY'
import os, pty, sys
shown = b""
def read(fd):
    global shown
    part = os.read(fd, 4096)
    shown += part
    return part
status = pty.spawn(sys.argv[2:], read)
open(sys.argv[1], "wb").write(shown)
sys.exit(os.waitstatus_to_exitcode(status))
PY
python3 "$work/terminal.py" "$work/shown" "$root/scripts/quietly.sh" "$work/log" Building sh -c "$steps" >/dev/null </dev/null
tr '\r' '\n' <"$work/shown" >"$work/lines"
grep -q '^Building  ####### .* 21/86 ' "$work/lines" || fail "no bar: $(cat "$work/lines")"
grep -q '^Building  ############### .* 93/186 ' "$work/lines" || fail "no second step: $(cat "$work/lines")"
grep -q 'Building C object' "$work/lines" && fail "what the command said is shown"
echo "a command that says much is a line, or a bar"

#!/usr/bin/env bash
# Runs a command that says much:  scripts/quietly.sh LOG TITLE COMMAND...
#
# All that it says goes into LOG. On a terminal a bar shows how far the step is that runs now; elsewhere there is one line. When
# the command fails, the end of the log is shown and its exit code is kept.
set -euo pipefail

log=$1 title=$2
shift 2
mkdir -p "$(dirname "$log")"
: >"$log"

# The last "n/m" of what CMake ([12/86]) and cargo (Building [==> ] 12/186: ...) say of themselves; nothing before the first.
step() { tail -c 2000 "$log" | tr '\r' '\n' | grep -aoE '(^\[|\] )[0-9]+/[0-9]+(\]|:)' | tail -n 1 | tr -dc '0-9/' || true; }

draw() {
    local at=${1%/*} of=${1#*/} filled bar
    filled=$((of > 0 ? 30 * at / of : 0))
    printf -v bar '%*s' "$filled" ''
    printf '\r%s  %-30s %s  %d s\033[K' "$title" "${bar// /#}" "$1" $((SECONDS - begun)) >&2
}

begun=$SECONDS
command=
# A command in the background does not hear Ctrl-C, so it is told.
trap '[ -z "$command" ] || kill -TERM "$command" 2>/dev/null; exit 130' INT TERM
if [ -t 2 ]; then
    # Cargo draws a bar for a person only; here it is asked for one that can be read.
    CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 "$@" >"$log" 2>&1 &
    command=$!
    while kill -0 "$command" 2>/dev/null; do
        draw "$(step)"
        sleep 0.5
    done
    printf '\r\033[K' >&2
else
    printf '%s: the log is %s\n' "$title" "$log" >&2
    "$@" >"$log" 2>&1 &
    command=$!
fi
code=0
wait "$command" || code=$?
if [ "$code" != 0 ]; then
    tr '\r' '\n' <"$log" | tail -n 20 >&2
    printf '%s failed; all of it is in %s\n' "$title" "$log" >&2
fi
exit "$code"

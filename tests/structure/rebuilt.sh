#!/usr/bin/env bash
# Configuring again makes nothing stale: rebuilt.sh ROOT WORK
# `make test` configures each build folder every time. A file that is written then without need has a new time, and whatever is
# made of it is built again.
set -euo pipefail
root=$1 work=$2
fail() { echo "CHECK FAILED: $*"; exit 1; }
rm -rf "$work"

configure() { cmake -S "$root" -B "$work" -G Ninja -DFREEHOLD_BENCH=OFF --log-level=WARNING >/dev/null; }
# What CMake writes for itself and for ninja is no source of anything.
sources() { find "$work" -type f ! -path '*/CMakeFiles/*' ! -name '*.cmake' ! -name '*.ninja' ! -name '.ninja_*' \
    ! -name compile_commands.json -printf '%P %T@\n' | sort; }

configure
sources >"$work.before"
cp "$work/compile_commands.json" "$work.commands"
[ "$(grep -c '\.c ' "$work.before")" -ge 20 ] || fail "configuring wrote no sources: this test looks at nothing"
configure
sources >"$work.after"
diff "$work.before" "$work.after" >"$work.diff" ||
    fail "written again, and built again: $(sed -n 's/^> \([^ ]*\).*/\1/p' "$work.diff" | tr '\n' ' ')"
cmp "$work/compile_commands.json" "$work.commands" || fail "the commands differ, so all is built again"
echo "configuring again leaves $(grep -c . "$work.before") files alone"
rm -r "$work" "$work".*

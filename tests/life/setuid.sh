#!/usr/bin/env bash
# A program that runs with more rights than its caller must not listen to its caller's environment:
#   setuid.sh PROGRAM       PROGRAM is linked with the static library, so that no loader is in question
# The check has a counterpart: without the setuid bit the same program must print the banner.
set -euo pipefail
. "$(dirname "$0")/../support/skip.sh"
[ "$(id -u)" = 0 ] || skip "only root can make a setuid program here"
folder=$(mktemp -d /tmp/freehold-setuid.XXXXXX)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cp "$1" "$folder/plain"
cp "$1" "$folder/setuid"
chown nobody "$folder/setuid"
chmod 4755 "$folder/setuid"

FREEHOLD=verbose=1,nonsense=1 "$folder/plain" 2>"$folder/plain.err" >/dev/null
grep -q '^freehold: version .* is active' "$folder/plain.err" || { echo "no banner without setuid"; exit 1; }
grep -q 'unknown option "nonsense"' "$folder/plain.err" || { echo "no complaint without setuid"; exit 1; }
! grep -q 'blocks that the program holds' "$folder/plain.err" || { echo "the heap was printed, and nobody asked"; exit 1; }
FREEHOLD=stats=1 "$folder/plain" 2>"$folder/stats.err" >/dev/null
grep -q 'blocks that the program holds' "$folder/stats.err" || { echo "stats=1 printed nothing of the heap"; exit 1; }

FREEHOLD=verbose=1,nonsense=1,stats=1 "$folder/setuid" 2>"$folder/setuid.err" >"$folder/setuid.out"
grep -q 'secure=1' "$folder/setuid.out" || skip "the setuid bit has no effect here (nosuid?)"
[ ! -s "$folder/setuid.err" ] || { echo "a setuid program listened to FREEHOLD:"; cat "$folder/setuid.err"; exit 1; }
echo "the setuid program ignored FREEHOLD"

#!/bin/sh
# Redis under redis-benchmark alone: redis_benchmark.sh REQUESTS KEYS SIZE... Each phase sets random keys of KEYS to values of
# one size, so that a value of an earlier size stays where its key was not drawn. With 2.3 requests a key that is one in ten.
set -eu

requests=$1
keys=$2
shift 2
folder=$(mktemp -d "${TMPDIR:-/tmp}/freehold-phases.XXXXXX")
socket=$folder/socket
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

LD_PRELOAD=$PHASES_LIBRARY redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --activedefrag no \
    --dir "$folder" > "$folder/log" 2>&1 &
server=$!
tries=0
until [ -S "$socket" ] && redis-cli -s "$socket" ping > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -le 200 ] || exit 1
    sleep 0.05
done
echo "pid $server"
for size; do
    redis-benchmark -s "$socket" -q -c 10 -P 50 -n "$requests" -r "$keys" -d "$size" -t set > "$folder/client"
    echo phase
    read -r _
done

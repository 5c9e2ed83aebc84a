#!/bin/sh
# A redis server under the library, its client without: redis.sh REQUESTS. The figures are the server's own, read from
# /proc before it ends, because the kernel's account of this script would include the client.
set -eu

requests=$1
folder=$(mktemp -d "${TMPDIR:-/tmp}/freehold-redis.XXXXXX")
socket=$folder/socket
server=
# The harness kills the whole group on a time-out; this is for the other ways out.
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

LD_PRELOAD=${BENCH_PRELOAD:-} redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --daemonize no \
    --dir "$folder" --loglevel warning > "$folder/log" 2>&1 &
server=$!
tries=0
until [ -S "$socket" ] && redis-cli -s "$socket" ping > /dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ]; then
        cat "$folder/log" >&2
        exit 1
    fi
    sleep 0.05
done

begin=$(date +%s.%N)
redis-benchmark -s "$socket" -q -c 20 -n "$requests" -r 100000 -d 200 -t set,get,lpush,lrange_100,mset > "$folder/client"
end=$(date +%s.%N)
# Keys are random; that there are some, and that the lists have as many entries as were pushed, must hold in any case.
pushed=$(redis-cli -s "$socket" llen mylist)
[ "$pushed" -ge "$requests" ]

# Fields 14 and 15 of stat are user and system time in ticks; the name in field 2 has no blanks here.
ticks=$(getconf CLK_TCK)
cpu=$(awk -v t="$ticks" '{ print ($14 + $15) / t }' "/proc/$server/stat")
peak=$(awk '/^VmHWM:/ { print $2 * 1024 }' "/proc/$server/status")
resident=$(awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$server/status")
echo "cpu_s $cpu"
echo "wall_s $(awk -v a="$begin" -v b="$end" 'BEGIN { print b - a }')"
echo "peak_rss $peak"
echo "rss@end $resident"
redis-cli -s "$socket" flushall > /dev/null
sleep 0.2
echo "rss@flushed $(awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$server/status")"
echo ok

#!/usr/bin/env bash
# redis-server under redis-benchmark, on loopback, on a port of its own, with a background save and a check that the data
# survive. Debian's build has an allocator of its own linked in, which a preload replaces: the map tells.
. "$(dirname "$0")/common.sh"
need redis-server redis-server
need redis-benchmark redis-tools
need redis-cli redis-tools
# A path of its own instead of a port is the surest way not to meet anybody else.
socket=$(mktemp -u /tmp/freehold-redis.XXXXXX)
LD_PRELOAD=$library redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work" \
    --io-threads 2 --daemonize no >"$work/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -f "$socket"' EXIT
cli() { redis-cli -s "$socket" "$@"; }
for _ in $(seq 100); do
    cli ping >/dev/null 2>&1 && break
    kill -0 "$server" 2>/dev/null || { cat "$work/server.log"; die "redis-server did not start"; }
    sleep 0.1
done
grep -q libfreehold "/proc/$server/maps" || die "Freehold is not in redis-server"
say "active in: redis-server ($(redis-server --version | cut -c1-40))"
count=40000
[ "$long" != long ] || count=1000000
timeout 300 redis-benchmark -s "$socket" -n "$count" -c 20 -P 8 -r 20000 -d 200 -q \
    -t set,get,incr,lpush,lpop,sadd,hset,spop,zadd,lrange_100,mset | tr '\r' '\n' | grep 'per second'
# Values that can be checked, saved by a forked child, and read again.
cli debug populate 50000 key 100 >/dev/null 2>&1 || for i in $(seq 500); do cli set "key:$i" "$i" >/dev/null; done
before=$(cli dbsize)
cli bgsave >/dev/null
for _ in $(seq 300); do
    cli info persistence | grep -q 'rdb_bgsave_in_progress:0' && break
    sleep 0.1
done
cli info persistence | grep -q 'rdb_last_bgsave_status:ok' || die "the background save failed"
cli set mark "$(printf 'x%.0s' $(seq 5000))" >/dev/null
[ "$(cli strlen mark)" = 5000 ] || die "a value was lost"
[ "$(cli dbsize)" -ge "$before" ] || die "keys were lost"
cli flushall >/dev/null
[ "$(cli dbsize)" = 0 ] || die "flushall"
cli memory purge >/dev/null 2>&1 || true
cli shutdown nosave >/dev/null 2>&1 || true
wait "$server" || die "redis-server ended with $?"
say "redis-server served, saved and ended"

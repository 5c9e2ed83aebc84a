#!/usr/bin/env bash
# Redis from Debian's source package with its active defragmentation on Freehold's hints (freehold/defrag.h): half a million keys,
# of which some expire, until 1.5 times as much memory is in use as is alive. Then it has to come down to 1.05, with every key
# as it was. Redis' own source is built as it is: it finds the names of its jemalloc in tests/programs/redis_defrag/.
. "$(dirname "$0")/common.sh"
tests=$(cd "$(dirname "$0")" && pwd)
need apt-get apt
need dpkg-source dpkg-dev
need redis-cli redis-tools
need cc gcc
fetch_sources redis || skip "the source package cannot be fetched"
shim=$work/shim
mkdir -p "$shim"
cc -O2 -fPIC -Wall -Wextra -I"$tests/../../include" -I"$tests/redis_defrag" -c "$tests/redis_defrag/names.c" -o "$shim/names.o"
# A linker script: what -ljemalloc brings.
echo "INPUT($shim/names.o $library)" >"$shim/libjemalloc.so"
cd "$work"/source/redis-*/
make -C src -j2 redis-server MALLOC=jemalloc USE_SYSTEM_JEMALLOC=yes BUILD_TLS=no USE_SYSTEMD=no CPPFLAGS="-I$tests/redis_defrag" \
    LDFLAGS="-L$shim -Wl,-rpath,$(dirname "$library")" >"$work/make.log" 2>&1 ||
    { tail -n 3 "$work/make.log"; skip "redis cannot be built here"; }

socket=$work/redis.sock
FREEHOLD=verbose=1 src/redis-server --port 0 --unixsocket "$socket" --save "" --enable-debug-command yes >"$work/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
ask() { redis-cli -s "$socket" "$@"; }
for _ in $(seq 100); do ask ping >/dev/null 2>&1 && break; sleep 0.1; done
grep -q '^freehold: version .* is active' "$work/server.log" || die "Freehold is not active in the server"
ratio() { ask info memory | sed -n 's/^allocator_frag_ratio:\([0-9.]*\).*/\1/p'; }
above() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

awk 'BEGIN { v = sprintf("%500s", ""); gsub(" ", "v", v)
             for (n = 1; n <= 500000; n++) print "SET key:" n " " substr(v, 1, 40 + n * 7919 % 400) }' | ask --pipe >/dev/null
# Of each twentieth of the keys another share expires.
awk 'BEGIN { for (n = 1; n <= 500000; n++) if (n * 104729 % 100 >= 15 + int(n / 25000) * 7 % 20 * 4) print "DEL key:" n }' |
    ask --pipe >/dev/null
sleep 1
digest=$(ask debug digest) before=$(ratio)
above "$before" 1.5 || die "a ratio of $before only: this test tests nothing"
for option in "active-defrag-ignore-bytes 1mb" "active-defrag-threshold-lower 3" "active-defrag-cycle-min 30" "activedefrag yes"; do
    # shellcheck disable=SC2086
    ask config set $option >/dev/null
done
for _ in $(seq 60); do
    sleep 1
    after=$(ratio)
    above "$after" 1.05 || break
done
[ "$(ask debug digest)" = "$digest" ] || die "the keys are no longer what they were"
say "redis defragmented: $before -> $after, $(ask info stats | grep active_defrag_hits | tr -d '\r')"
! above "$after" 1.05 || die "the ratio stays at $after"

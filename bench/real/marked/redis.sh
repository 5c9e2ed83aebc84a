#!/bin/sh
# The same for redis, whose server alone has the library: redis.sh LIBFREEHOLD.SO LIBCOUNT_FREES.SO [COMMAND...]. Counted is what
# 40,000 more requests of a kind take, 16 at a time: frees, instructions in user mode (observed), and the share of 10 and 8.
set -eu

library=$(realpath "$1")
counter=$(realpath "$2")
shift 2
folder=$(mktemp -d "${TMPDIR:-/tmp}/freehold-marked.XXXXXX")
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

# serve PRELOAD REQUESTS KIND [TOOL...]
serve() {
    preload=$1 requests=$2 kind=$3 socket=$folder/socket
    shift 3
    FREES=$folder/frees FREEHOLD=observe=1 LD_PRELOAD=$preload "$@" redis-server --port 0 --unixsocket "$socket" --save '' \
        --appendonly no --hz 1 --dir "$folder" > "$folder/log" 2>&1 &
    server=$!
    tries=0
    until [ -S "$socket" ] && redis-cli -s "$socket" ping > /dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -le 600 ] || exit 1
        sleep 0.1
    done
    redis-benchmark -s "$socket" -q -c 1 -P 16 -n "$requests" -r 100000 -d 100 -t "$kind" > "$folder/client"
    redis-cli -s "$socket" shutdown nosave > /dev/null 2>&1 || true
    wait "$server" || true
    server=
}

# Both counts of so many requests of a kind.
count() {
    rm -rf "$folder/frees" "$folder/counts"
    mkdir "$folder/counts"
    serve "$counter" "$1" "$2" env
    serve "$library" "$1" "$2" valgrind -q --tool=cachegrind --cache-sim=no --cachegrind-out-file="$folder/counts/%p"
    echo "$(awk '{ n += $1 + $2 } END { printf "%d", n }' "$folder/frees")" \
        "$(cat "$folder"/counts/* | awk '/^summary:/ { n += $2 } END { printf "%.0f", n }')"
}

[ $# -gt 0 ] || set -- get set hset lpush
for kind; do
    few=$(count 20000 "$kind")
    many=$(count 60000 "$kind")
    echo "$kind $few $many" | awk '{ f = $4 - $2; i = $5 - $3; printf "redis %-6s %9d frees %12d instructions %6.2f%% %6.2f%%\n", $1, f, i, 1000 * f / i, 800 * f / i }'
done

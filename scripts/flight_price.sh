#!/bin/sh
# What the flight recorder costs, in instructions of whole programs that callgrind counts: flight_price.sh [BUILD]
#
# Each line: program, instructions under Freehold alone, under Freehold with the recorder, and the difference.
set -eu
build=$(cd "${1:-build}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null PYTHONHASHSEED=0

counted() {
    valgrind --tool=callgrind --callgrind-out-file="$folder/out" "$@" 2>&1 | sed -n 's/.*Collected : //p'
}

compare() {
    name=$1
    shift
    alone=$(export LD_PRELOAD="$build/libfreehold.so"; counted "$@")
    flown=$(
        export LD_PRELOAD="$build/libfreehold-record.so:$build/libfreehold.so"
        export FREEHOLD_RECORD="$folder" FREEHOLD_RECORD_WHEN_FULL=ring FREEHOLD_RECORD_BLOCKS=1024
        counted "$@"
    )
    echo "$alone $flown" | awk -v name="$name" '{ printf "%s %d %d %.1f %%\n", name, $1, $2, 100 * ($2 / $1 - 1) }'
}

cat >"$folder/work.sql" <<'END'
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
    INSERT INTO t SELECT i, hex(i*7919), printf('%d-%d', i, i%97) FROM n;
CREATE INDEX tb ON t(b);
SELECT count(*), max(length(g)) FROM (SELECT c, group_concat(b) g FROM t GROUP BY c);
END
cat >"$folder/work.py" <<'END'
import json
text = json.dumps([{"k%d" % i: [i, str(i), {"x": i / 3}]} for i in range(20000)])
print(len(text), len(json.loads(text)))
END
compare sqlite3 sqlite3 :memory: ".read $folder/work.sql"
compare git git -C "$root" --no-pager log --stat -n 40 6e80cde
export PYTHONMALLOC=malloc # or Python's own allocator serves all that is small
compare python3 /usr/bin/python3 "$folder/work.py"

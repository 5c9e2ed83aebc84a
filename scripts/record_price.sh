#!/bin/bash
# What recording costs: record_price.sh [BUILD [TURNS]]
#
# First in instructions of whole programs that callgrind counts. Each line: program, instructions under Freehold alone, under
# Freehold with the recorder, and the difference. The recorder keeps a ring of 64 MiB without a reader: it is the flight
# recorder. With a reader the program executes the same instructions. Time passes slowly under callgrind, so the recorder is
# told that all calls are close to each other. TURNS of 0 ends here. Then in the CPU time of the program, which `freehold record` reads meanwhile: the median over TURNS
# turns (5) in milliseconds, alone and recorded, and the ratio.
set -eu
build=$(cd "${1:-build}" && pwd)
turns=${2:-5}
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
    recorded=$(
        export LD_PRELOAD="$build/libfreehold-record.so:$build/libfreehold.so"
        export FREEHOLD_RECORD="$folder" FREEHOLD_RECORD_WHEN_FULL=ring FREEHOLD_RECORD_BLOCKS=1024
        export FREEHOLD_RECORD_CLOSE=1000000000000000
        counted "$@"
    )
    rm -f "$folder"/*.raw
    echo "$alone $recorded" | awk -v name="$name" '{ printf "%s %d %d %.1f %%\n", name, $1, $2, 100 * ($2 / $1 - 1) }'
}

# CPU time of a command, in milliseconds, added to a file. `time` is bash's own, and bash has ended when the file is read.
timed='exec 3>&2; { TIMEFORMAT="%U %S"; time "${@:2}" >"/dev/null" 2>&3; } 2>>"$1"'

median() {
    awk '{ print 1000 * ($1 + $2) }' "$1" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

compare_time() {
    name=$1
    shift
    rm -f "$folder/alone" "$folder/recorded"
    for ((turn = 0; turn < turns; turn++)); do
        bash -c "$timed" "$name" "$folder/alone" env LD_PRELOAD="$build/libfreehold.so" "$@"
        "$build/freehold" record -o "$folder/trace" bash -c "$timed" "$name" "$folder/recorded" "$@" 2>"$folder/said" ||
            { cat "$folder/said" && exit 1; }
    done
    echo "$(median "$folder/alone") $(median "$folder/recorded")" |
        awk -v name="$name" '{ printf "%s: %d ms alone, %d ms recorded: %.2f times\n", name, $1, $2, $2 / $1 }'
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
sed 's/20000/400000/' "$folder/work.sql" >"$folder/more.sql"
sed 's/20000/100000/' "$folder/work.py" >"$folder/more.py"
compare sqlite3 sqlite3 :memory: ".read $folder/work.sql"
compare git git -C "$root" --no-pager log --stat -n 40 6e80cde
PYTHONMALLOC=malloc compare python3 /usr/bin/python3 "$folder/work.py" # or Python's own allocator serves all that is small
[ "$turns" -gt 0 ] || exit 0
compare_time pairs "$build/tests/pair" 64 5000000
compare_time deep "$build/tests/pair" 64 5000000 100
compare_time replace "$build/bench/random_replace" live=1000000 min=16 max=255 n=3000000
compare_time threadtest "$build/bench/threadtest" threads=2 blocks=30000 size=64 rounds=200
compare_time larson "$build/bench/larson" threads=2 generations=50 rounds=100000
compare_time xmalloc "$build/bench/xmalloc" pairs=1 batches=50000
compare_time sqlite3 sqlite3 :memory: ".read $folder/more.sql"
compare_time git git -C "$root" --no-pager log --stat -n 200 6e80cde
PYTHONMALLOC=malloc compare_time python3 /usr/bin/python3 "$folder/more.py"

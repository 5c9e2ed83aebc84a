#!/usr/bin/env bash
# Runs every workload in a tiny form under the system's allocator and under each shared object given, and compares
# the checksums: a workload whose result depends on the allocator measures nothing, and an allocator that changes
# it is broken. Every program of the folder has to be in the table below, so a new one cannot be forgotten. Each of the
# ancestors has one line in three, so that each line is some ancestor's.
#
#   bench/check_workloads.sh FOLDER-OF-WORKLOADS [LIBRARY.so ...]
set -euo pipefail
folder=$1
shift

# One line a run: the program and its arguments. Programs stand here more than once where modes differ much.
table='
bodies         threads=3 bodies=40 requests=300 max=500000
bursts         threads=1 batches=200
bursts         threads=3 batches=200 keep=50
cache_lines    rounds=20 writes=1000 threads=2 scratch=1
calloc_kept    dirty=4m kept=24m rounds=3
calloc_kept    dirty=4m kept=24m min=100000 max=100000 rounds=3 untouched=1
churn          threads=300 lanes=4
churn          threads=300 lanes=4 alone=1
class_perf     rounds=1 items=50000
cold_start     total=4000000
depth          pairs=700
drift          volume=500k phases=60
fc_random      mode=single threads=1 rounds=1 min=1 max=256
fc_random      mode=ring threads=3 rounds=1
fc_random      mode=pair threads=2 rounds=1 min=32 max=2000
edge           size=64 swing=1024 hold=512 step=128 turns=10
frames         n=200000 threads=2
frames         n=200000 above=1 sized=1
generations    threads=3 generations=5 blocks=2000
generations    threads=2 generations=5 blocks=2000 reuse=0
grow           start=64k step=64k limit=8m n=2 neighbours=1
grow           start=16 step=0 limit=1m n=20
grow           start=16 step=16 limit=64k n=2
grow_many      buffers=20 start=4k min=64k max=2m n=1000
grow_many      buffers=10 start=2k mixed=1 min=64k max=1m log=1 n=2000 threads=3
grow_many      buffers=2 start=16k step=16k min=4m max=4m n=1500
handover       from=1 to=1 n=200000
handover       from=3 to=2 min=1 max=700 n=200000 sample=1
handover       from=2 to=1 min=64 max=1024 queue=8192 hold=6000 n=100000
hello          n=3
hot_bin        burst=32 threads=2 n=400000
hovering       low=2m high=4m teeth=3 shortest=1 longest=20
huge_replace   live=5 min=2m max=10m n=20
huge_replace   live=6 min=64k max=32m log=1 total=40m n=60 realloc=30 threads=2
idle_threads   threads=40
large_fill     total=8m min=66000 max=66000 rounds=2
large_fill     total=12m min=64k max=2m rounds=2 threads=3
larson         threads=3 generations=4 rounds=5000
lifetimes      threads=2 rounds=50
lifetimes      threads=3 rounds=50 shared=1
mstress        threads=3 phases=3 load=3000
octalloc       threads=2 each=50000
pairs          size=64 n=200000 threads=2
phases         total=4m phases=3 random=1
random_replace live=20000 min=16 max=4000 n=60000
random_replace live=20000 min=1 max=255 n=60000 threads=2
rings          size=5000 ring=32 n=20000
rings          size=1m n=300 threads=2
safepoint      readers=3 rows=2000 walks=5 n=20000
sparse         total=4m then=2m
spike          total=8m min=16 max=32768 sleep=0 random=1
spike          total=4m min=64 max=64 sleep=1 threads=2
threadtest     threads=3 blocks=9000 rounds=10
trace          ops=40000 passes=2
trace          ops=20000 passes=2 threads=3 swap=1
x_objects      size=128 total=60000 batch=1000 threads=2
x_objects      size=1m total=100 batch=8 threads=1
xmalloc        pairs=2 batches=200
'

# Prints the checksum of one run; nothing but a last line "ok" counts as a run that went well.
checksum() {
    local library=$1 program=$2
    shift 2
    local text
    # The loader reads LD_PRELOAD for `env` too if it is set outside; set here, only the program gets it.
    if [ -n "$library" ]; then
        text=$(env LD_PRELOAD="$library" timeout 120 "$folder/$program" "$@") || return 1
    else
        text=$(timeout 120 "$folder/$program" "$@") || return 1
    fi
    [ "$(tail -n 1 <<<"$text")" = ok ] || return 1
    sed -n 's/^check //p' <<<"$text"
}

# The ancestors are as they were: moar-2014 may end at a thread's exit, rarely. So theirs is a run of three; what runs must be right.
tries() { case $1 in */ancestors/*) echo 1 2 3 ;; *) echo 1 ;; esac; }

# The loader only warns about a library that it cannot find, and the program would run without it.
for library in "$@"; do
    [ -f "$library" ] || { echo "$library does not exist"; exit 1; }
done

bad=0 runs=0 line=0 seen=" "
while read -r program arguments; do
    [ -n "$program" ] || continue
    seen+="$program " line=$((line + 1)) number=0
    # The arguments are words on purpose.
    # shellcheck disable=SC2086
    expected=$(checksum "" "$program" $arguments) || { echo "$program $arguments: failed without a library"; bad=1; continue; }
    for library in "$@"; do
        number=$((number + 1))
        case $library in */ancestors/*) [ $(((line + number) % 3)) = 0 ] || continue ;; esac
        runs=$((runs + 1))
        found="no result"
        for try in $(tries "$library"); do
            # shellcheck disable=SC2086
            found=$(checksum "$library" "$program" $arguments) && break
            echo "$program $arguments: under $library: no result, try $try"
            found="no result"
        done
        if [ "$found" != "$expected" ]; then
            echo "$program $arguments: under $library: $found instead of $expected"
            bad=1
        fi
    done
done <<<"$table"

for file in "$folder"/*; do
    name=${file##*/}
    if [ -f "$file" ] && [ -x "$file" ] && [ "${seen/ $name /}" = "$seen" ]; then
        echo "$name is not in the table of this script"
        bad=1
    fi
    # The list of variants is what the harness lives on: three fields, and the third is quick or full.
    if [ -f "$file" ] && [ -x "$file" ] && "$file" --list | awk -F'\t' 'NF != 3 || ($3 != "quick" && $3 != "full") {exit 1}'; then :
    elif [ -f "$file" ] && [ -x "$file" ]; then
        echo "$name --list does not say what the harness expects"
        bad=1
    fi
done
echo "$runs runs compared"
exit "$bad"

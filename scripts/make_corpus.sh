#!/usr/bin/env bash
# Records the corpus: scripts/make_corpus.sh [NAME...]
#
# Each trace of corpus/ is a real program from a package at ordinary work that this script describes, recorded by
# `freehold record`, cut to its last 250,000 operations, and made anonymous. So it has no text of the machine, no time and
# no address; sizes are rounded up to eight steps a doubling. Programs and their versions differ between machines, so another
# run makes other traces of the same kind. What is missing is said, and its trace stays as it is.
#
# Needs build/freehold (`make`) and the programs: sqlite3, git, python3, gcc, redis-server, node, rustc, postgres.
set -euo pipefail
cd "$(dirname "$0")/.."
freehold=${CORPUS_COMMAND:-$PWD/build/freehold}
corpus=$PWD/corpus HERE=$PWD
export BENCH_REAL=$PWD/bench/real PHASES=$PWD/bench/real/phases
work=$(mktemp -d "${TMPDIR:-/tmp}/freehold-corpus.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
MOST=250000

# record OPTION... -- COMMAND...: to program.trace, which is the process with the most calls if there are several.
record() {
    rm -f program.trace*
    "$freehold" record -o program.trace --all "$@" >record.out 2>record.err </dev/null ||
        { cat record.err >&2; return 1; }
}

largest() { ls -S program.trace* | head -n 1; }

python() { python3 -c 'import sys; print(sys.executable)'; }

record_sqlite() {
    record -- sqlite3 -init /dev/null :memory: ".parameter init" ".parameter set @n 30000" ".read $BENCH_REAL/rows.sql"
}

record_git() {
    sh "$BENCH_REAL/make_repository.sh"
    record -- git --git-dir=repository.git log --stat -n 400 main
}

record_python() { record -- env PYTHONMALLOC=malloc "$(python)" "$BENCH_REAL/tree.py" 1; }

record_gcc() {
    sh "$BENCH_REAL/make_sources.sh"
    record -- gcc -O1 -S functions.c -o functions.s
}

record_redis() {
    local port=$((20000 + RANDOM % 20000))
    (
        for _ in $(seq 100); do redis-cli -p $port ping >/dev/null 2>&1 && break; sleep 0.1; done
        timeout 60 redis-benchmark -p $port -q -c 16 -n 3000 -r 5000 -d 300 -t set,get,lpush,lpop,sadd,hset >/dev/null
        timeout 10 redis-cli -p $port shutdown nosave >/dev/null 2>&1
    ) &
    record -- redis-server --port $port --save '' --appendonly no --bind 127.0.0.1
    wait
}

# A web server that keeps documents and compresses them in threads, with four clients. SIGTERM ends it.
record_node() {
    mkfifo port
    python3 - port <<'CLIENTS' &
import http.client, os, random, signal, sys, threading
pid, port = map(int, open(sys.argv[1]).read().split())
text = b" ".join(b"word%d of %d" % (i * 7919 % 1000, i % 13) for i in range(30000))
def client(number):
    dice, server = random.Random(number), http.client.HTTPConnection("127.0.0.1", port)
    for request in range(400):
        length = dice.randrange(1000, 100000)
        start = dice.randrange(len(text) - length)
        way = ("GET", None) if request % 4 == 3 else ("PUT", text[start:start + length])
        server.request(way[0], f"/{dice.randrange(300)}", *way[1:])
        server.getresponse().read()
clients = [threading.Thread(target=client, args=(i,)) for i in range(4)]
for one in clients: one.start()
for one in clients: one.join()
os.kill(pid, signal.SIGTERM)
CLIENTS
    # The server says its port alone.
    sed 's/console.log(server.address().port)/require("fs").writeFileSync("port", process.pid + " " + server.address().port)/' \
        "$HERE/tools/freehold/src/demo/scenes/server.js" >server.js
    record -- node server.js || true # ended by a signal
    wait
}

# The compiler itself has an allocator of its own inside. What is recorded is the process with the most calls: the linker.
record_rust() {
    mkdir -p crate/src
    printf '[package]\nname = "example"\nversion = "0.1.0"\nedition = "2021"\n' >crate/Cargo.toml
    awk 'BEGIN {
        print "use std::collections::{BTreeMap, HashMap};"
        for (i = 0; i < 60; i++) printf "#[derive(Debug, Clone, PartialEq)]\npub struct S%d { a: Vec<u%d>, b: Option<String> }\n", i, 8 * 2 ^ (i % 4)
        print "fn main() {\n    let mut all: BTreeMap<String, usize> = BTreeMap::new();\n    let mut by: HashMap<usize, Vec<String>> = HashMap::new();"
        for (i = 0; i < 60; i++) printf "    let s = S%d { a: vec![1; %d], b: Some(format!(\"{}\", all.len())) };\n    all.insert(format!(\"{s:?}\"), s.a.len());\n    by.entry(s.a.len()).or_default().push(format!(\"{:?}\", s.b));\n", i, i
        print "    println!(\"{} {}\", all.len(), by.len());\n}"
    }' >crate/src/main.rs
    record -- env CARGO_TARGET_DIR="$work/target" cargo build -q --offline --manifest-path crate/Cargo.toml
}

# The process of a server that works for one of four clients.
record_postgres() {
    local bin as= client round
    bin=$(pg_config --bindir)
    if [ "$(id -u)" = 0 ]; then
        chmod 755 "$work"
        mkdir -p data && chown postgres data
        as="runuser -u postgres --"
    fi
    $as "$bin/initdb" -D "$work/data" -A trust --no-sync >/dev/null
    (
        for _ in $(seq 100); do psql -h "$work/data" -d postgres -c 'select 1' -U postgres >/dev/null 2>&1 && break; sleep 0.1; done
        psql -h "$work/data" -U postgres -d postgres -q -c 'create table t as select x, md5(x::text) m from generate_series(1, 20000) x' >/dev/null
        for client in 1 2 3 4; do
            for round in $(seq 40); do
                echo "select 'process ' || pg_backend_pid();"
                echo "select left(m, $((client + 1))) k, count(*), string_agg(m, '') from t where x % $((client + 6)) <> $client group by k order by 2 desc limit 20;"
                echo "select array_agg(x order by m) from t where x % 41 <> $round and x < 3000; select json_agg(t) from t where x < $((client * 300 + round * 37));"
            done | psql -h "$work/data" -U postgres -d postgres -q -A -t >"client.$client" &
        done
        wait
        kill -INT "$(head -n 1 "$work/data/postmaster.pid")"
    ) &
    chmod 777 "$work"
    rm -f program.trace*
    $as "$freehold" record -o "$work/program.trace" --all -- "$bin/postgres" -D "$work/data" -k "$work/data" \
        -c listen_addresses= -c fsync=off -c jit=off -c max_parallel_workers_per_gather=0 >record.out 2>record.err </dev/null ||
        { cat record.err >&2; return 1; }
    wait
    mv "program.trace.$(sed -n '1s/process //p' client.1)-0" backend
    rm -f program.trace*
    mv backend program.trace
}

record_phases() {
    PHASES_MIB=2 record -- env PYTHONMALLOC=malloc "$(python)" "$PHASES/service.py" spread 60 400 90 1500 200 5000 40
}

declare -A needs=([sqlite]=sqlite3 [git]=git [python]=python3 [gcc]=gcc [redis]=redis-benchmark [node]=node [rust]=rustc
    [postgres]=pg_config [phases]=python3)
names=("$@")
[ $# -gt 0 ] || names=(sqlite git python gcc redis node rust postgres phases)
for name in "${names[@]}"; do
    [ -n "${needs[$name]-}" ] || { echo "corpus: there is no trace $name: ${!needs[*]}" >&2; exit 2; }
    if ! command -v "${needs[$name]}" >/dev/null; then
        echo "corpus: $name: ${needs[$name]} is not here; its trace stays as it is"
        continue
    fi
    "record_$name"
    whole=$(largest)
    operations=$("$freehold" trace info "$whole" | sed -n '1s/[^0-9,].*//; 1s/,//gp')
    "$freehold" trace cut --from $((operations > MOST ? operations - MOST : 0)) -o cut.trace "$whole" 2>/dev/null
    "$freehold" trace anonymize -o "$corpus/$name.trace" cut.trace 2>/dev/null
    chmod 644 "$corpus/$name.trace"
    "$freehold" trace info "$corpus/$name.trace" | sed -n "1s/^/corpus: $name: /p"
done

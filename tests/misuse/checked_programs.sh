#!/usr/bin/env bash
# Real programs with option check: no report, and the same output. checked_programs.sh LIBFREEHOLD.SO WORK-FOLDER
here=$(dirname "$(realpath "$0")")
. "$here/../programs/common.sh"
export FREEHOLD=check=1
tried=0
try() {
    local name=$1
    shift
    if ! command -v "$1" >/dev/null 2>&1; then
        skip_part "no $1"
        return 0
    fi
    same "$name" "$@"
    ! grep 'freehold: ' "$work/$name.with" || die "$name: a report"
    tried=$((tried + 1))
}
seq 1 30000 >"$work/numbers"
cat >"$work/some.py" <<'PY'
import collections, json, re, threading
words = [{"a": i, "b": str(i) * (i % 50)} for i in range(5000)]
assert json.loads(json.dumps(words)) == words
threads = [threading.Thread(target=lambda: collections.Counter(re.findall(r"\d", json.dumps(words)))) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(len(json.dumps(words)))
PY
# It is in them.
active sort --version
try sort sort -r -n "$work/numbers"
try sort_threads sort --parallel=4 -S 200K "$work/numbers"
try python python3 "$work/some.py"
try sqlite sqlite3 :memory: "create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 10000) insert into t select x, 'v' || x from c;
    create index i on t(b); select count(*), max(b) from t where b like 'v1%'; delete from t where a % 3 = 0; select sum(a) from t;"
try perl perl -e 'my %h; $h{$_} = "x" x ($_ % 90) for 1 .. 20000; delete $h{$_ * 3} for 1 .. 5000; print scalar(keys %h), "\n"'
git init -q "$work/tree" && cp "$work/numbers" "$work/some.py" "$work/tree"
git -C "$work/tree" add . && git -C "$work/tree" -c user.name=n -c user.email=e commit -q -m m
try git git -C "$work/tree" log --stat
try git_grep git -C "$work/tree" grep -c 1
if command -v redis-server >/dev/null 2>&1; then
    cat >"$work/commands" <<'R'
SET a 1
EVAL "for i = 1, 3000 do redis.call('SET', 'k' .. i, string.rep('x', i % 300)) end return 1" 0
EVAL "local n = 0 for i = 1, 3000 do n = n + redis.call('STRLEN', 'k' .. i) end return n" 0
DEL k1 k2 k3
SHUTDOWN NOSAVE
R
    port=$((20000 + RANDOM % 20000))
    LD_PRELOAD=$library timeout 60 redis-server --port $port --bind 127.0.0.1 --save "" --dir "$work" \
        >"$work/redis.out" 2>"$work/redis.err" &
    server=$!
    for _ in $(seq 100); do redis-cli -p $port ping 2>/dev/null | grep -q PONG && break; sleep 0.1; done
    redis-cli -p $port <"$work/commands" >"$work/redis.answers" 2>&1 || true
    wait $server || { cat "$work/redis.err"; die "redis-server"; }
    grep -q 448500 "$work/redis.answers" || { cat "$work/redis.answers"; die "redis-server: another sum"; }
    ! grep 'freehold: ' "$work/redis.err" || die "redis-server: a report"
    tried=$((tried + 1))
else
    skip_part "no redis-server"
fi
[ "$tried" -ge 3 ] || skip "only $tried programs are here"
say "$tried programs, no report"

#!/usr/bin/env bash
# Real programs with option guard: no report, and the same output. guard_programs.sh LIBFREEHOLD.SO WORK-FOLDER
here=$(dirname "$(realpath "$0")")
. "$here/../programs/common.sh"
export FREEHOLD=guard=100 PYTHONMALLOC=malloc
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
import collections, json, os, re, threading
words = [{"a": i, "b": str(i) * (i % 50)} for i in range(5000)]
assert json.loads(json.dumps(words)) == words
threads = [threading.Thread(target=lambda: collections.Counter(re.findall(r"\d", json.dumps(words)))) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
if child == 0:
    os._exit(len(json.dumps(words)) % 100)
print(os.waitpid(child, 0)[1], len(json.dumps(words)))
PY
# It is in them.
active sort --version
try sort sort -r -n "$work/numbers"
try sort_threads sort --parallel=4 -S 200K "$work/numbers"
try python python3 "$work/some.py"
try perl perl -e 'my %h; $h{$_} = "x" x ($_ % 90) for 1 .. 20000; delete $h{$_ * 3} for 1 .. 5000; print scalar(keys %h), "\n"'
git init -q "$work/tree" && cp "$work/numbers" "$work/some.py" "$work/tree"
git -C "$work/tree" add . && git -C "$work/tree" -c user.name=n -c user.email=e commit -q -m m
try git git -C "$work/tree" log --stat
try git_grep git -C "$work/tree" grep -c 1
[ "$tried" -ge 3 ] || skip "only $tried programs are here"
say "$tried programs, no report"

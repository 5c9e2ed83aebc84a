#!/usr/bin/env python3
"""What option check costs, beside glibc: checked_cost.py LIBFREEHOLD.SO WORK-FOLDER TRACE-PROGRAM

Each program runs three times with glibc's malloc, with Freehold, and with check=1. Printed are the CPU time of the best run
and the most that was resident. Asserted is memory alone: with check=1 at most three times what glibc takes. A time
depends on what else the machine does."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

SQL = """create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000)
insert into t select x, 'v' || x from c; create index i on t(b); select count(*) from t where b like 'v1%';"""
SCRIPT = """import json
words = [{"a": i, "b": str(i) * (i % 50)} for i in range(20000)]
assert json.loads(json.dumps(words)) == words"""
MOST_MEMORY = 3
RUNS = 3


def run(command, environment):
    """CPU seconds and resident MiB of one run."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"CHECK FAILED: {command[0]} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def best(command, variables):
    environment = dict(os.environ, **variables)
    runs = [run(command, environment) for _ in range(RUNS)]
    return min(time for time, _ in runs), max(memory for _, memory in runs)


def main():
    library, folder, trace = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    commands = {"sqlite": ["sqlite3", ":memory:", SQL], "python": [sys.executable, "-S", "-c", SCRIPT],
                "W1, server mix": [trace, "passes=10"], "sort": ["sort", "-S", "10M", os.path.join(folder, "numbers")]}
    with open(os.path.join(folder, "numbers"), "w", encoding="utf-8") as file:
        file.writelines(f"{i * 7919 % 100003}\n" for i in range(200000))
    good = True
    print(f"{'':16}{'glibc':>20}{'Freehold':>20}{'check=1':>20}{'time':>8}{'memory':>8}")
    for name, command in commands.items():
        if not shutil.which(command[0]):
            skips.skip_part(f"no {command[0]}")
            continue
        rows = [best(command, variables) for variables in
                ({}, {"LD_PRELOAD": library}, {"LD_PRELOAD": library, "FREEHOLD": "check=1"})]
        time, memory = (rows[2][i] / max(rows[0][i], 0.001) for i in (0, 1))
        cells = "".join(f"{seconds:9.3f} s{size:5.0f} MiB" for seconds, size in rows)
        print(f"{name:16}{cells}{time:7.2f}x{memory:7.2f}x")
        good = good and memory <= MOST_MEMORY
    if not good:
        sys.exit(f"CHECK FAILED: more than {MOST_MEMORY} times the memory")


main()

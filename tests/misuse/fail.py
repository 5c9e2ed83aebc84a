#!/usr/bin/env python3
"""Option fail: exactly the allocations that were named fail, and the log says where. fail.py PROGRAM

fail.c asks for 1,000 bytes thirty times, by turns in two functions. What fails is what it says itself."""

import os
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
CALLS = 30


def run(options, *words):
    environment = dict(os.environ, FREEHOLD=options)
    done = subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.splitlines(), done.stderr, done.returncode


def failed(options, *words):
    """The numbers of the calls that failed."""
    lines, _, code = run(options, *words)
    if code != 0 or any("wrong" in line for line in lines):
        sys.exit(f"FAILED {options}: {code}, {lines}")
    return [int(line.split()[1]) for line in lines]


def want(what, got, wanted):
    if got != wanted:
        sys.exit(f"FAILED {what}: {got}, and {wanted} was wanted")
    print(f"ok      {what}")


def numbers():
    """What comes before main counts too: the first of ours tells how many that are."""
    before = next(n for n in range(1, 200) if failed(f"fail={n}") == [0]) - 1
    for n in (0, 1, 7, CALLS - 1):
        want(f"the {n}th of ours alone", failed(f"fail={before + n + 1}"), [n])
    want("none beyond the last", failed(f"fail={before + CALLS + 1}"), [])
    every = [n for n in range(CALLS) if (before + n + 1) % 10 == 0]
    want("each tenth", failed("fail=every:10"), every)
    after = failed("fail=after:20k")
    want("all after 20 KiB", after, list(range(after[0], CALLS)))
    if not 10 <= after[0] <= 20:
        sys.exit(f"FAILED the first after 20 KiB is {after[0]}")
    want("a child goes on counting", failed(f"fail={before + 20}", "forks"), [19])
    want("none", failed("fail=none"), [])


def sites(folder):
    log = os.path.join(folder, "log")
    want("no failure for a log", failed(f"fail_log={log}"), [])
    rows = [line.split("\t") for line in open(log, encoding="utf-8").read().splitlines()]
    ours = [row for row in rows if row[0] == "site" and row[3] == "1000"]
    want("two sites", len(ours), 2)
    odd = list(range(1, CALLS, 2))
    even = list(range(0, CALLS, 2))
    both = [failed(f"fail=site:{row[2]}") for row in ours]
    want("each site alone", sorted(both), [even, odd])
    os.remove(log)
    failed(f"fail=site:{ours[0][2]},fail_log={log}")
    rows = [line.split("\t") for line in open(log, encoding="utf-8").read().splitlines()]
    want("failures are written down", {row[2] for row in rows if row[0] == "fail"}, {ours[0][2]})
    want("all of them", len([row for row in rows if row[0] == "fail"]), CALLS // 2)


def calls():
    """Each function of the family can fail, and loses nothing; realloc to less stays where it is."""
    names = [run(f"fail={n}", "calls")[0] for n in range(1, 40)]
    said = {line for lines in names for line in lines}
    want("every call can fail", said, {"malloc 0 failed", "calloc 0 failed", "realloc 0 failed", "aligned_alloc 0 failed",
                                       "malloc of much 0 failed"})
    want("one in each run", max(len(lines) for lines in names), 1)


def words():
    for bad in ("x", "0", "every:", "every:0", "site:", "site:12345678901", "after:9x", "7:"):
        _, said, code = run(f"fail={bad}")
        want(f"fail={bad} is refused", (code, 'option "fail" has bad value' in said), (0, True))
    _, said, _ = run("fail=every:7")
    want("the first is said with its stack", ("because option fail says so" in said, "asked for at" in said), (True, True))


numbers()
with tempfile.TemporaryDirectory() as folder:
    sites(folder)
calls()
words()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does each workload do the operations that it says? Runs them in the tiny form of check_workloads.sh under counter.c.

    bench/counts/check_counts.py FOLDER-OF-WORKLOADS COUNTER.so [FOLDER-OF-WORKLOADS-THAT-TIME]

A rule for each program says how many blocks its arguments, and the operations that it prints, come to. Every program has
a rule, so a new one cannot be forgotten. The second folder has the workloads that time each call: there the numbers of
timed calls must be those of the measured section.
"""

import os
import re
import subprocess
import sys
import tempfile


def exact(blocks):
    """The rule of a program that allocates so many blocks and frees all of them."""
    return lambda a, f, c: c["mallocs"] == blocks(a, f) and c["blocks"] == c["frees"]


def says(a, f, c):
    """The program prints its own counts."""
    return c["mallocs"] == f["mallocs"] and c["frees"] == f["frees"]


def ops(a, f):
    return f["ops"]


def half(a, f):
    return f["ops"] / 2


def grow_many(a, f, c):
    begun_again = f["ops"] - c["reallocs"]
    return exact(lambda a, f: a["threads"] * (4000 + a["buffers"]) + 4 * f["ops"] + begun_again)(a, f, c)


def random_slots(a, f, c):
    """Which pick finds a full slot is chance; over many, a third to a half of them."""
    return c["mallocs"] == c["frees"] and f["ops"] * 0.3 < c["mallocs"] < f["ops"] * 0.55


RULES = {
    "bodies": says,
    "bursts": says,
    "cache_lines": exact(lambda a, f: a["rounds"] + a["threads"]),
    "calloc_kept": lambda a, f, c: c["mallocs"] + c["callocs"] == f["ops"] == c["frees"],
    "churn": exact(lambda a, f: a["threads"] * 200),
    "class_perf": exact(lambda a, f: a["rounds"] * a["items"] * 11 // 10),
    "cold_start": lambda a, f, c: c["mallocs"] == f["ops"] and c["frees"] == 0,
    "depth": says,
    "drift": exact(ops),
    "edge": exact(lambda a, f: f["ops"] + a["hold"]),
    "fc_random": random_slots,
    "frames": lambda a, f, c: c["blocks"] == c["frees"] and abs(c["mallocs"] - f["ops"] / 2) <= 64 * a["threads"],
    "generations": says,
    "grow": lambda a, f, c: c["reallocs"] == f["ops"] and c["mallocs"] == a["n"] + ("neighbours" in a) * f["ops"],
    "grow_many": grow_many,
    "handover": exact(ops),
    # Each start is a process of its own; the program itself asks for next to nothing.
    "hello": lambda a, f, c: f["ops"] == a["n"],
    "hot_bin": exact(ops),
    "hovering": says,
    "huge_replace": lambda a, f, c: c["mallocs"] == a["threads"] * a["live"] + f["ops"] - c["reallocs"] and c["blocks"] == c["frees"],
    "idle_threads": exact(lambda a, f: a["threads"] * 40),
    "large_fill": exact(ops),
    "larson": exact(lambda a, f: a["threads"] * (1000 + a["generations"] * a["rounds"])),
    "lifetimes": exact(lambda a, f: a["threads"] * a["rounds"] * 1024),
    "mstress": exact(lambda a, f: a["threads"] * a["phases"] * a["load"]),
    "octalloc": random_slots,
    "pairs": exact(lambda a, f: a["n"]),
    "phases": exact(half),
    "random_replace": exact(lambda a, f: a["live"] + a["n"]),
    "rings": exact(ops),
    "safepoint": exact(lambda a, f: a["rows"] + a["n"]),
    "sparse": exact(half),
    "spike": exact(half),
    "threadtest": exact(lambda a, f: a["blocks"] * a["rounds"]),
    "trace": exact(half),
    "x_objects": exact(ops),
    "xmalloc": exact(lambda a, f: a["pairs"] * a["batches"] * 120),
}

# Blocks that the C library and the C++ one allocate for themselves: one for each thread, and one for exceptions.
LIBRARY_BLOCKS = {"x_objects": 1}

# Those whose measured section holds all calls but the first fill and the last frees. How many calls must have been timed.
TIMED = {
    "bursts": ("threads=2 batches=50", lambda a, f: (f["ops"], None)),
    "cold_start": ("total=1000000", lambda a, f: (f["ops"], 0)),
    "handover": ("from=1 to=1 min=64 max=1024 queue=4096 hold=1000 n=20000", lambda a, f: (f["ops"], f["ops"])),
    "idle_threads": ("threads=20 blocks=40", lambda a, f: (f["ops"], f["ops"])),
    "larson": ("threads=2 generations=3 rounds=2000", lambda a, f: (f["ops"], f["ops"])),
    "pairs": ("threads=2 size=512 n=20000", lambda a, f: (f["ops"], f["ops"])),
    "phases": ("total=1m phases=2", lambda a, f: (f["ops"] / 2, f["ops"] / 2)),
    "random_replace": ("live=2000 n=20000", lambda a, f: (f["ops"], f["ops"])),
    "spike": ("total=1m min=16 max=512 sleep=0", lambda a, f: (f["ops"] / 2, f["ops"] / 2)),
}


def number(text):
    scale = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower(), 0)
    digits = text[:-1] if scale else text
    return int(digits) * (scale or 1) if digits.isdigit() else text


def run(program, words, counter):
    """The arguments, the figures that the program prints, and the calls that were counted."""
    arguments = {"threads": 1}
    arguments.update({key: number(value) for key, value in (word.split("=") for word in words)})
    with tempfile.NamedTemporaryFile() as file:
        environment = {**os.environ, "LD_PRELOAD": counter, "BENCH_COUNTS": file.name}
        done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode != 0 or not done.stdout.endswith("\nok\n"):
            raise SystemExit(f"{program} {' '.join(words)}: failed: {done.stderr.strip()}")
        mallocs, callocs, reallocs, frees = (int(word) for word in file.read().split())
    figures = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        if re.fullmatch(r"-?[\d.]+", value) and key != "check":
            figures[key] = float(value)
    return arguments, figures, {"mallocs": mallocs, "callocs": callocs, "reallocs": reallocs, "frees": frees}


def holds(name, arguments, figures, counts):
    counts = {**counts, "mallocs": counts["mallocs"] - LIBRARY_BLOCKS.get(name, 0)}
    # A thread has a block of the C library's, which is freed when another thread takes its stack or at no time. So frees
    # may exceed the program's by as many as there were such blocks, and only by these.
    for extra in range(counts["callocs"] + 1):
        trial = {**counts, "frees": counts["frees"] - extra, "blocks": counts["mallocs"]}
        if RULES[name](arguments, figures, trial):
            return True
    return False


def table(script):
    with open(script, encoding="utf-8") as file:
        text = re.search(r"^table='\n(.*?)^'", file.read(), re.S | re.M).group(1)
    return [(words[0], words[1:]) for words in map(str.split, text.splitlines()) if words]


def check_counts(folder, counter):
    bad, runs = [], 0
    rows = table(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "check_workloads.sh"))
    missing = {name for name, _ in rows} ^ set(RULES)
    if missing:
        bad.append(f"in one of check_workloads.sh and RULES only: {', '.join(sorted(missing))}")
    for name, words in rows:
        if name not in RULES:
            continue
        arguments, figures, counts = run(os.path.join(folder, name), words, counter)
        runs += 1
        if not holds(name, arguments, figures, counts):
            bad.append(f"{name} {' '.join(words)}: says {figures.get('ops'):.0f} operations, counted {counts}")
        # The rule itself is tried: one block more must not pass for the same.
        elif name not in ("fc_random", "octalloc", "frames", "hello"):
            wrong = {**counts, "mallocs": counts["mallocs"] + 1, "reallocs": counts["reallocs"] + 1}
            if holds(name, arguments, figures, wrong):
                bad.append(f"{name}: its rule does not notice a block too many")
    return bad, runs


def check_timed(folder, counter):
    bad, runs = [], 0
    for name, (words, expected) in TIMED.items():
        arguments, figures, _ = run(os.path.join(folder, name), words.split(), counter)
        runs += 1
        for call, count in zip(("malloc", "free"), expected(arguments, figures)):
            if count is not None and figures[f"{call}_calls"] != count:
                bad.append(f"{name}: {figures[f'{call}_calls']:.0f} timed calls of {call}, not {count:.0f}")
            if count == 0 and f"{call}_max_ns" not in figures:
                continue
            times = [figures[f"{call}_{which}_ns"] for which in ("p50", "p99", "p99.9", "p99.99", "max")]
            if times != sorted(times):
                bad.append(f"{name}: percentiles of {call} do not rise: {times}")
    return bad, runs


def main():
    folder, counter = sys.argv[1], os.path.abspath(sys.argv[2])
    bad, runs = check_counts(folder, counter)
    if len(sys.argv) > 3:
        more, timed = check_timed(sys.argv[3], counter)
        bad, runs = bad + more, runs + timed
    for line in bad:
        print(line)
    print(f"{runs} runs counted")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""When a double free is found: a table for several allocators, or the shares that ours has to reach.

twice.py table TWICE-PROGRAM LIBFREEHOLD.SO [TRIALS]    the table of docs/misuse.md; peers from build/peers and Debian's clang
twice.py check TWICE-PROGRAM LIBFREEHOLD.SO             fails if a share is too small, or a report is false

twice.c says what a trial is. What the machine lacks is counted as skipped."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DISTANCES = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
TRIALS = 100
# (distance, others, threads): percent that has to be found at the call. With 100 others of mixed sizes 96.5 % are, and the aim is 95:
# of 400 trials the bar is four standard deviations below the former.
MORE_TRIALS = {(100, "mixed", 1): 400}
LEAST = {(0, "same", 1): 100, (5, "same", 1): 100, (50, "same", 1): 98, (100, "same", 1): 95, (500, "same", 1): 95,
         (0, "mixed", 1): 100, (5, "mixed", 1): 98, (50, "mixed", 1): 93, (100, "mixed", 1): 93}
PEERS = {"mimalloc 3": [os.path.join(ROOT, "build/peers/mimalloc34.so"), os.path.join(ROOT, "build/peers/mimalloc3.so")],
         "scudo": ["/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so",
                   "/usr/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so"]}


def run(program, library, distance, others, threads, trials):
    """Of so many trials: found at the call, later, crashed, never."""
    environment = dict(os.environ, FREEHOLD="")
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = os.path.abspath(library)
    done = subprocess.run([program, str(distance), others, str(threads), str(trials)], env=environment,
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {distance} {others} {threads} with {library}: ended with {done.returncode}: {done.stderr}")
    return [int(word) for word in done.stdout.split()]


def allocators(library):
    chosen = {"Freehold": library, "glibc": None}
    for name, patterns in PEERS.items():
        found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
        if found:
            chosen[name] = found[-1]
        else:
            skips.skip_part(f"no {name} on this machine")
    return chosen


def table(program, library, trials):
    chosen = allocators(library)
    print(f"In percent of {trials} trials: at the call / later / crash or endless loop / never.\n")
    print("| second free | others | after | " + " | ".join(chosen) + " |")
    print("|---|---|---|" + "---|" * len(chosen))
    for threads, others in [(1, "same"), (1, "mixed"), (2, "same"), (2, "mixed")]:
        where = "same thread" if threads == 1 else "another thread"
        for distance in DISTANCES:
            cells = [run(program, path, distance, others, threads, trials) for path in chosen.values()]
            shares = [" / ".join(str(round(100 * n / trials)) for n in cell) for cell in cells]
            print(f"| {where} | {others} | {distance} | " + " | ".join(shares) + " |", flush=True)


def check(program, library):
    good = True
    for (distance, others, threads), least in LEAST.items():
        trials = MORE_TRIALS.get((distance, others, threads), TRIALS)
        found = run(program, library, distance, others, threads, trials)
        share = 100 * found[0] / trials
        good = good and share >= least
        print(f"{'ok' if share >= least else 'FAILED':7} {others:5}, {distance:4} others between: {share:.0f} % found at the "
              f"call, at least {least} wanted; later {found[1]}, crashed {found[2]}, never {found[3]}")
    for distance, threads in [(0, 1), (100, 1), (1000, 1), (100, 2)]:
        found = run(program, library, distance, "control", threads, TRIALS)
        good = good and found == [0, 0, 0, TRIALS]
        print(f"{'ok' if found[3] == TRIALS else 'FAILED':7} no double free, {distance:4} others, {threads} threads: "
              f"{TRIALS - found[3]} false reports")
    sys.exit(0 if good else 1)


def main():
    what, program, library, *trials = sys.argv[1:]
    if what == "table":
        table(program, library, int(trials[0]) if trials else TRIALS)
    else:
        check(program, library)


main()

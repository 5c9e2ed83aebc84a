#!/usr/bin/env python3
"""What a detour of free costs at most: frees.py LIBFREEHOLD.SO LIBCOUNT_FREES.SO [--instructions N]... [NAME...]

Each program of real.toml (those named, or the quick ones) runs twice: once with count_frees.c preloaded, which counts the blocks
that it frees, and once under valgrind with the library, which counts instructions. Printed are both, and which share of all
instructions a detour of N instructions at each free would be. This is exact where the difference of two counts is not: what an
observed program does besides depends on time and on which blocks are sampled, and differs by one per cent between runs."""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

REAL = os.environ.get("BENCH_REAL") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(entry, folder, library, before=(), **more):
    environment = dict(os.environ, BENCH_REAL=REAL, PYTHONHASHSEED="0", LD_PRELOAD=os.path.realpath(library), **more)
    subprocess.run([*before, "sh", "-c", entry["command"]], cwd=folder, env=environment, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def frees(entry, folder, counter):
    path = os.path.join(folder, "frees")
    run(entry, folder, counter, FREES=path)
    with open(path, encoding="ascii") as file:
        return sum(int(word) for line in file for word in line.split())


def instructions(entry, folder, library):
    with tempfile.TemporaryDirectory() as counts:
        run(entry, folder, library, ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes",
                                     f"--cachegrind-out-file={counts}/%p"], FREEHOLD="observe=1")
        total = 0
        for path in glob.glob(counts + "/*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                total += int(re.search(r"^summary: (\d+)", file.read(), re.M)[1])
        return total


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("library")
    a.add_argument("counter")
    a.add_argument("--instructions", type=int, action="append")
    a.add_argument("name", nargs="*")
    a = a.parse_intermixed_args()
    detours = a.instructions or [10, 8]
    with open(os.path.join(REAL, "real.toml"), "rb") as file:
        entries = tomllib.load(file)["real"]
    print(f"{'program':22} {'frees':>12} {'instructions':>16}" + "".join(f" {n:4} each" for n in detours), flush=True)
    for e in entries:
        if e.get("places_library") or not (e["name"] in a.name if a.name else e.get("quick")):
            continue
        if not all(map(shutil.which, e["needs"])):
            print(f"{e['name']}: SKIPPED, needs {', '.join(e['needs'])}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if "setup" in e:
                subprocess.run(["sh", "-c", e["setup"]], cwd=folder, env=dict(os.environ, BENCH_REAL=REAL), check=True,
                               capture_output=True)
            freed, total = frees(e, folder, a.counter), instructions(e, folder, a.library)
        print(f"{e['name']:22} {freed:12,} {total:16,}" + "".join(f" {n * freed / total:9.2%}" for n in detours), flush=True)
    return 0


sys.exit(main())

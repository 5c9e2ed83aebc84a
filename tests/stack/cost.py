#!/usr/bin/env python3
"""Instructions of a walk, by callgrind: cost.py PROGRAM WORK-FOLDER. Runs that differ in the depth alone are subtracted, and
runs that differ in the number of walks alone, so that what is learnt once drops out.

Asserted: at most 90 instructions a frame."""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

MOST = 90


def instructions(program, depth, walks, folder):
    out = os.path.join(folder, f"callgrind.{depth}.{walks}")
    run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, str(depth), str(walks)],
                         check=True, capture_output=True, text=True)
    os.remove(out)
    return int(re.search(r"Collected : (\d+)", run.stderr)[1])


def main():
    program, folder = sys.argv[1:]
    if not shutil.which("valgrind"):
        skips.skip("no valgrind")
    os.makedirs(folder, exist_ok=True)
    few, many, low, high = 100, 1100, 20, 220
    of = {(d, w): instructions(program, d, w, folder) for d in (low, high) for w in (few, many)}
    walk = {d: (of[d, many] - of[d, few]) / (many - few) for d in (low, high)}
    frame = (walk[high] - walk[low]) / (high - low)
    print(f"{frame:.1f} instructions a frame, and {walk[low] - low * frame:.0f} a walk")
    print(subprocess.run([program, "200", "20000", "time"], check=True, capture_output=True, text=True).stdout.strip())
    sys.exit(0 if frame <= MOST else f"more than {MOST} instructions a frame")


main()

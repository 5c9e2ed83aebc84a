#!/usr/bin/env python3
"""Instructions of a walk, by callgrind: cost.py PROGRAM WORK-FOLDER. Runs that differ in the depth alone are subtracted, and
runs that differ in the number of walks alone, so that what is learnt once drops out.

Asserted: at most 90 instructions a frame."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import valgrind  # noqa: E402

MOST = 90


def main():
    program, folder = sys.argv[1:]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    few, many, low, high = 100, 1100, 20, 220
    of = {(d, w): valgrind.collected([program, d, w], folder) for d in (low, high) for w in (few, many)}
    walk = {d: (of[d, many] - of[d, few]) / (many - few) for d in (low, high)}
    frame = (walk[high] - walk[low]) / (high - low)
    print(f"{frame:.1f} instructions a frame, and {walk[low] - low * frame:.0f} a walk")
    print(subprocess.run([program, "200", "20000", "time"], check=True, capture_output=True, text=True).stdout.strip())
    sys.exit(0 if frame <= MOST else f"more than {MOST} instructions a frame")


main()

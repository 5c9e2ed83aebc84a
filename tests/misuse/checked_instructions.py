#!/usr/bin/env python3
"""Instructions of a pair of malloc and free with option check, counted by callgrind:
checked_instructions.py PAIR-PROGRAM LIBFREEHOLD.SO WORK-FOLDER

As hotpath/count.py, but each run is a program of its own: each call takes its stack, and that of a child is deeper. The quarantine
is small and full, so each free lets a block leave. What the C library's memset and memcmp take of blocks above 512 bytes is not
counted."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "support"))
import valgrind  # noqa: E402

OPTIONS = "check=1,quarantine=64k"
FEW, MANY = 20000, 40000
# Before: 1,560 for 64 bytes.
MOST = {16: 850, 64: 850, 250: 1000, 1000: 1000}


def main():
    program, library, folder = sys.argv[1:4]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    environment = {"LD_PRELOAD": library, "FREEHOLD": OPTIONS}
    for size, most in MOST.items():
        few, many = (valgrind.inside([program, size, pairs], library, folder, environment) for pairs in (FEW, MANY))
        each = (many - few) / (MANY - FEW)
        fits = 100 <= each <= most
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:6} bytes: {each:6.1f} instructions a checked pair (at most {most})")
    sys.exit(0 if good else 1)


main()

#!/usr/bin/env python3
"""Instructions of a cell taken and freed, counted by callgrind: pool_price.py PROGRAM WORK-FOLDER

A pool is held to its header's figures, and beside it stand malloc and the C++ library's pool for one thread, which it has to be
ahead of. Two runs that differ only in the number of cells are subtracted, and of that the loop without a cell."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import valgrind  # noqa: E402

FEW, MANY = 16000, 64000
MOST = 17.5  # 5 and 9, and the three of the loop that hold a cell


def each(program, form, size, folder):
    many, few = (valgrind.collected([program, form, size, cells], folder) for cells in (MANY, FEW))
    return (many - few) / (MANY - FEW)


def main():
    program, folder = sys.argv[1:3]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    for size in (8, 24, 200):
        empty = each(program, "empty", size, folder)
        price = {form: each(program, form, size, folder) - empty for form in ("pool", "malloc", "pmr")}
        fits = 4 <= price["pool"] <= MOST and price["pool"] < min(price["malloc"], price["pmr"])
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:4} bytes: pool {price['pool']:.1f} instructions a cell (at most {MOST}), "
              f"malloc {price['malloc']:.1f}, std::pmr {price['pmr']:.1f}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

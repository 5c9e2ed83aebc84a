#!/usr/bin/env python3
"""Instructions of a block out of a heap, counted by callgrind: price.py PROGRAM WORK-FOLDER

Two runs that differ only in the number of blocks are subtracted, and of that the loop without a block. What is counted is all
that runs. Of a frame block these are five, and what segments cost; of the others a block with its free."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import valgrind  # noqa: E402

FEW, MANY = 20000, 60000
MOST = {"frame": 5.5, "private": 310, "shared": 310, "grown": 150, "scoped": 230, "long": 240, "sized": 680, "type": 1700}


def each(program, form, folder):
    many, few = (valgrind.collected([program, form, blocks], folder) for blocks in (MANY, FEW))
    return (many - few) / (MANY - FEW)


def main():
    program, folder = sys.argv[1:3]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    empty, good = each(program, "empty", folder), True
    for form, most in MOST.items():
        price = each(program, form, folder) - empty
        fits = 1 <= price <= most
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {form:8} {price:6.1f} instructions a block (at most {most})")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

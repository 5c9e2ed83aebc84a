#!/usr/bin/env python3
"""Instructions of an inlined pair of freehold/fast.h, counted by callgrind: count.py PAIR PAIR-WITHOUT-LOOK WORK-FOLDER

Two runs that differ only in the number of pairs are subtracted, and of that the loop without a pair. What is counted is all that
runs, in the program and in the library, refills too."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import valgrind  # noqa: E402

FEW, MANY = 20000, 60000
# Of each form what a pair may take; of a batch, a block.
MOST = {"call": 41, "defer": 60, "plain": 30, "sized": 22, "exact": 13, "batch": 20}
MOST_WITHOUT_LOOK = {"plain": 24, "sized": 22, "exact": 13}
DEFERRED = 1.5  # what malloc and a deferred free may cost in plain pairs
LEAST = 8  # less than that would be no pair


def each(program, form, folder):
    many, few = (valgrind.collected([program, form, pairs], folder) for pairs in (MANY, FEW))
    # Each run warms up with a tenth of its pairs.
    return (many - few) / ((MANY - FEW) * 1.1)


def main():
    with_look, without, folder = sys.argv[1:4]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    for program, bounds, name in [(with_look, MOST, "FH_FAST_LOOK=1"), (without, MOST_WITHOUT_LOOK, "FH_FAST_LOOK=0")]:
        empty = each(program, "empty", folder)
        pairs = {}
        for form, most in bounds.items():
            pair = each(program, form, folder) - (0 if form == "batch" else empty)
            fits = LEAST <= pair <= most + 0.5
            good = good and fits
            pairs[form] = pair
            print(f"{'ok' if fits else 'FAILED':7} {name} {form:6} {pair:5.1f} instructions a pair (at most {most})")
        if "defer" in pairs and pairs["defer"] > DEFERRED * pairs["call"]:
            good = False
            print(f"FAILED  a deferred free costs more than {DEFERRED} plain pairs")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the observer costs in instructions, by callgrind: instructions.py PAIR-PROGRAM LIBFREEHOLD.SO WORK-FOLDER

Off: the pair of malloc and free takes what it took before there was an observer. On, but with a sample so seldom that there
is none in this run: at most 12 more, all of malloc: a free of an observed thread is the same as any other. With
guards, counting to the next one: at most 20. The first guard takes five million, for its tables. In some run of a hundred it is
drawn within these few pairs, so the least of three tries counts."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hotpath"))
from count import instructions, valgrind  # noqa: E402

FEW, MANY = 2000, 6000
BEFORE = 37  # of the pair up to 1 KiB, by gcc 12 at -O2; other compilers may need one more
MORE = 12
GUARDS = 20


def each_pair(program, library, size, folder, options, most):
    least = float("inf")
    for _ in range(3):
        few, many = (instructions(program, library, size, n, folder, options) for n in (FEW, MANY))
        least = min(least, (many - few) / (MANY - FEW)) if many > few else least
        if least <= most:
            break
    return least


def main():
    program, library, folder = sys.argv[1:4]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    for size in (16, 100, 1024, 8192):
        alone = each_pair(program, library, size, folder, "", BEFORE + 1)
        observed = each_pair(program, library, size, folder, f"observe=1,sample=1t,page={folder}", alone + MORE)
        fits = observed <= alone + MORE and (size > 1024 or 30 <= alone <= BEFORE + 1)
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:5} bytes: {alone:.2f} instructions, observed {observed:.2f}")
    guarded = each_pair(program, library, 100, folder, "guard=1000000", BEFORE + 1 + GUARDS)
    fits = guarded <= BEFORE + 1 + GUARDS
    print(f"{'ok' if fits else 'FAILED':7}   100 bytes: {guarded:.2f} instructions with guards")
    sys.exit(0 if good and fits else 1)


main()

#!/usr/bin/env python3
"""What the observer costs in instructions, by callgrind: instructions.py PAIR-PROGRAM LIBFREEHOLD.SO WORK-FOLDER

Off: the pair of malloc and free takes what it took before there was an observer. On, but with a sample so seldom that there
is none in this run: at most 12 more, all of malloc: a free of an observed thread is the same as any other. With
guards, counting to the next one: at most 20. The first guard takes five million, for its tables. In some run of a hundred it is
drawn within these few pairs, so the least of three tries counts."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hotpath"))
from count import counts_of, pairs_of, valgrind  # noqa: E402

FEW, MANY = 2000, 6000
SIZES = (16, 100, 1024, 8192)
BEFORE = 37  # of the pair up to 1 KiB, by gcc 12 at -O2; other compilers may need one more
MORE = 12
GUARDS = 20


def each_pair(program, library, sizes, folder, options, most):
    """{size: instructions of a pair}, the least of up to three tries."""
    least = dict.fromkeys(sizes, float("inf"))
    for _ in range(3):
        asked = [size for size in sizes if least[size] > most[size]]
        if not asked:
            break
        counts = counts_of(program, library, folder, options, pairs_of(asked, FEW, MANY))
        for size in asked:
            few, many = (counts[size, n] for n in (FEW, MANY))
            least[size] = min(least[size], (many - few) / (MANY - FEW)) if many > few else least[size]
    return least


def main():
    program, library, folder = sys.argv[1:4]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    alone = each_pair(program, library, SIZES, folder, "", dict.fromkeys(SIZES, BEFORE + 1))
    bounds = {size: alone[size] + MORE for size in SIZES}
    observed = each_pair(program, library, SIZES, folder, f"observe=1,sample=1t,page={folder}", bounds)
    for size in SIZES:
        fits = observed[size] <= bounds[size] and (size > 1024 or 30 <= alone[size] <= BEFORE + 1)
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:5} bytes: {alone[size]:.2f} instructions, observed {observed[size]:.2f}")
    guarded = each_pair(program, library, [100], folder, "guard=1000000", {100: BEFORE + 1 + GUARDS})[100]
    fits = guarded <= BEFORE + 1 + GUARDS
    print(f"{'ok' if fits else 'FAILED':7}   100 bytes: {guarded:.2f} instructions with guards")
    sys.exit(0 if good and fits else 1)


main()

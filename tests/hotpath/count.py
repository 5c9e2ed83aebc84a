#!/usr/bin/env python3
"""Instructions of a pair of malloc and free, counted by callgrind: count.py PAIR-PROGRAM ENDS-PROGRAM LIBFREEHOLD.SO WORK-FOLDER

Two runs that differ only in the number of pairs are subtracted, so that start-up, the first refills and the program's
own loop drop out. Counted is what runs inside the library; the call's way there (the program's PLT stub) is the
same for every allocator and is left out.

Asserted: at most 38 for the pair up to 1 KiB, and nearly flat on to 32 KiB; at most 32 where double frees are not looked for
at the call; and how much more it is when many blocks are allocated before they are freed, which the two magazines of a bin
should hardly feel. And of two calls that programs make all the time: at most 40 for malloc_usable_size of a block, which Redis
calls at each allocation and each free, and at most 110 for a realloc of a block that stays as it is. At most 180 for one that copies
a small block, 100 for an aligned block and its free, and 41 where the block is freed by C++'s sized delete. And of the life of a thread
that allocates and frees 200 blocks, which takes over what the thread before it had cached: at most 50,000 with its 200 pairs."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import valgrind  # noqa: E402

SIZES = [16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 8192, 16384, 32768]
FEW, MANY = 1000, 3000
MOST_TO_1_KIB = 38
# Above 1 KiB the class takes a few instructions of arithmetic more.
MOST_ABOVE = 50
# Without the look for a double free, which each free takes.
OFF, LESS, OFF_SIZES = "double_free=flush", 6, [16, 256, 1024, 32768]


# (size, depth): at most so many. Up to a full magazine the pair is as cheap as at depth 1; from there on the two magazines of the
# bin change places twice in a round.
DEEP = {(48, 8): 38, (48, 16): 38, (48, 32): 38, (48, 128): 38, (48, 500): 39, (48, 600): 39,
        (1000, 8): 38, (1000, 100): 42, (5000, 8): 50, (30000, 4): 50, (30000, 8): 88, (30000, 12): 80, (60000, 4): 50,
        # Slabs that come and go: what a claim of slots costs.
        (8192, 256): 270, (60000, 256): 540,
        # Half of them are no longer in magazines. It was 69 when each block of a flush was looked for by itself (store/slab.c).
        (256, 8000): 63}
DEEP_FEW, DEEP_MANY = 24000, 48000
# Of a small block no word of its slab is read, which would not be in the CPU's cache.
MORE_SIZES = [16, 100, 1000, 5000, 65536]
MORE = {"usable": ("malloc_usable_size", MORE_SIZES, 40),
        "resized": ("a realloc that changes nothing", MORE_SIZES + [100000, 1000000], 110),
        # The copy itself is the C library's and not counted.
        "moved": ("a realloc to twice the size", [16, 100, 1000, 5000, 30000], 180),
        "aligned": ("a block at a cache line and its free", MORE_SIZES, 100),
        # Its hot half does not ask whether the program has replaced another form (api/new.c).
        "deleted": ("a malloc and a sized delete", [16, 100, 1000], 41)}
MORE_PAIRS = 3000, 6000
# It was 123,000 when all of the cache was looked through each time (cache/twice.h).
ENDS_FEW, ENDS_MANY, ENDS_MOST = 100, 500, 50000


def counts_of(program, library, folder, options, runs):
    """{run: instructions inside the library}, all runs under one valgrind. A run is what pair.c takes: size, pairs, depth, call."""
    runs = list(dict.fromkeys(runs))
    environment = {"LD_PRELOAD": library, "FREEHOLD": options}
    return dict(zip(runs, valgrind.inside_each(program, runs, library, folder, environment)))


def pairs_of(sizes, few, many):
    """The two runs for each of these sizes."""
    return [(size, pairs) for size in sizes for pairs in (few, many)]


def main():
    program, ends, library, folder = sys.argv[1:5]
    valgrind.need()
    os.makedirs(folder, exist_ok=True)
    good = True
    more = [(size, call) for call, row in MORE.items() for size in row[1]]
    runs = pairs_of(SIZES, FEW, MANY)
    runs += [(size, pairs, depth) for size, depth in DEEP for pairs in (DEEP_FEW, DEEP_MANY)]
    runs += [(size, pairs, 1, *call) for size, name in more for pairs in MORE_PAIRS for call in ((), (name,))]
    counts = {"": counts_of(program, library, folder, "", runs),
              OFF: counts_of(program, library, folder, OFF, pairs_of(OFF_SIZES, FEW, MANY))}
    for size, options in [(size, "") for size in SIZES] + [(size, OFF) for size in OFF_SIZES]:
        each = (counts[options][size, MANY] - counts[options][size, FEW]) / (MANY - FEW)
        most = (MOST_TO_1_KIB if size <= 1024 else MOST_ABOVE) - (LESS if options else 0)
        # Less than ten means that the calls never arrived in the library: then nothing was measured.
        fits = 10 <= each <= most
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:6} bytes: {each:5.1f} instructions a pair (at most {most})"
              f"{', ' if options else ''}{options}")
    counts = counts[""]
    for (size, depth), most in DEEP.items():
        each = (counts[size, DEEP_MANY, depth] - counts[size, DEEP_FEW, depth]) / ((DEEP_MANY - DEEP_FEW) // depth * depth)
        fits = 10 <= each <= most
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:6} bytes, {depth:3} at a time: {each:5.1f} instructions a pair "
              f"(at most {most})")
    few_pairs, more_pairs = MORE_PAIRS
    for size, call in more:
        what, _, most = MORE[call]
        asked, without = [counts[size, more_pairs, 1, *word] - counts[size, few_pairs, 1, *word] for word in ((call,), ())]
        each = (asked - without) / (more_pairs - few_pairs)
        fits = 3 <= each <= most
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {size:6} bytes: {each:5.1f} instructions for {what} (at most {most})")
    few, many = [valgrind.inside([ends, n], library, folder, {"LD_PRELOAD": library, "FREEHOLD": ""})
                 for n in (ENDS_FEW, ENDS_MANY)]
    each = (many - few) / (ENDS_MANY - ENDS_FEW)
    fits = 2000 <= each <= ENDS_MOST
    good = good and fits
    print(f"{'ok' if fits else 'FAILED':7} a thread with 200 pairs: {each:.0f} instructions (at most {ENDS_MOST})")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How many of a thousand mistakes does option guard find? guard_share.py PROGRAM [TRIALS]

Each trial is a process that makes one kind of mistake 1,000 times, at guard=1000: an overrun, an underrun or a use after free. It
counts as found if the process ends with a report that names the right places: where the block was allocated, where it was freed
if it was, and where the access was; or, of a write that met no guard, where it was found.

The bar is 63 %, which is 1 − 1/e: what 1,000 independent choices of one in 1,000 find. The library chooses one of each 1,000
allocations, wherever the round began. With one other allocation between two mistakes, 1,000 mistakes are two rounds that each
choose one with probability 1/2: 3/4 are expected. Of 300 trials the standard deviation is 2.5 %, so that the bar is five of
them below. With nine others between them 1 − 0.9^10 = 65 % are expected; there the bar is five deviations below that."""

import os
import re
import subprocess
import sys

from reports import normal

# What is said, and by which functions the block was allocated, freed and touched. The second one reads what it writes.
KINDS = {"o": ("overflow", "allocates", None, "writes"), "u": ("underflow", "allocates", None, "writes"),
         "a": ("use after free", "allocates", "frees", "reads")}


def right(program, kind, text):
    """True if the report is right in all that it says."""
    what, allocated, freed, touches = KINDS[kind]
    lines = normal(program, text)
    places = dict(re.findall(r"^  (\w+) at (\w+)$", "\n".join(lines), re.M))
    wanted = {"allocated": allocated} | ({"found": "frees"} if "found" in places else {"read": touches})
    if freed:
        wanted["freed"] = freed
    return what in lines[0] and places == wanted


def trials(program, others, each):
    """Found, of how many; and reports that are wrong."""
    found, wrong, seen = 0, [], {}
    for seed in range(each):
        for kind in KINDS:
            done = subprocess.run([program, kind, str(others), str(seed)], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, FREEHOLD="guard=1000"))
            if done.returncode == 0 and not done.stderr:
                continue
            # Only the addresses differ, by where the program was loaded: each form is named once.
            form = (kind, re.sub(r"0x[0-9a-f]+(?= )|0x[0-9a-f]{9,}|\[..\]|^    0x.*$", "", done.stderr, flags=re.M))
            if form not in seen:
                seen[form] = done.returncode < 0 and right(program, kind, done.stderr)
            if seen[form]:
                found += 1
            else:
                wrong.append(done.stderr)
    return found, each * len(KINDS), wrong


def main():
    program = os.path.abspath(sys.argv[1])
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    good = True
    for others, number, bar in ((1, each, 0.63), (9, each, 0.65 - 5 * (0.65 * 0.35 / (3 * each)) ** 0.5)):
        found, every, wrong = trials(program, others, number)
        share = found / every
        fits = share >= bar and not wrong
        good = good and fits
        print(f"{'ok' if fits else 'FAILED':7} {others} others between: found {found} of {every}, {100 * share:.1f} %; "
              f"at least {100 * bar:.0f} %")
        for text in wrong[:1]:
            print("not right:\n" + text)
    sys.exit(0 if good else 1)


main()

#!/usr/bin/env python3
"""The most instructions that any one call of malloc or free takes.

    calls.py CALLS-PROGRAM LIBFREEHOLD.SO            prints the table of docs/concurrency.md, in Markdown
    calls.py CALLS-PROGRAM LIBFREEHOLD.SO DOCUMENT   asserts the bounds of the table that is there, row by row

Runs calls.c for each size, with no thread stopped and with some stopped for ever in the middle of a call. A cell is "measured ≤
bound". On the hit path the bound has three instructions for other compilers. A pass over all depots may fall into a call of a
larger block or not, because memory and a clock decide; so those bounds have room for one."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

# Bytes, and how many blocks are allocated before they are freed.
SIZES = {16: 700, 256: 700, 1024: 600, 8192: 150, 32768: 64, 262144: 12, 4 << 20: 12, 16 << 20: 12}
STALLED = [0, 4, 16]
# Without such a pass and with one, which looks at some 25,000 places.
SMALL, SMALL_MOST, WITH_PASS = 1024, 60000, 600000
# A longer block is in no cache; the one that was freed last is kept, and now and then the policy is asked about it.
CACHED, KEPT_MOST = 1 << 20, 1000
COLUMNS = [("first", "malloc"), ("warm", "malloc"), ("warm", "free"), ("cold", "malloc"), ("cold", "free")]


def measure(program, library, size, stalled, blocks):
    """{(when, call): (instructions, system calls)}"""
    done = subprocess.run([program, str(size), str(stalled), str(blocks)], env={**os.environ, "LD_PRELOAD": library},
                          capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{size} bytes, {stalled} stalled: ended with {done.returncode}: {done.stderr.strip()}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(when, call): (int(instructions), int(entered)) for when, call, instructions, entered in rows}


def name(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def cell(column, size, value):
    if column[0] == "warm" and size <= CACHED:
        return f"{value} ≤ {value + 3}"
    if column[0] == "warm":
        return f"{value} ≤ {KEPT_MOST:,}"
    return f"{value:,} ≤ {SMALL_MOST if column[0] == 'first' or size <= SMALL else WITH_PASS:,}"


def show(size, stalled, most):
    cells = [cell(column, size, most[column][0]) for column in COLUMNS]
    entered = max(most["cold", call][1] for call in ("malloc", "free"))
    return f"| {name(size)} | {stalled} | " + " | ".join(cells) + f" | {entered} |"


def bounds(document):
    """{(size, stalled): [the most that each column may be]}"""
    with open(document, encoding="utf-8") as file:
        table = re.search(r"<!-- calls: begins -->\n(.*?)<!-- calls: ends -->", file.read(), re.S).group(1)
    found = {}
    for line in table.strip().splitlines()[2:]:
        cells = [words.strip() for words in line.strip("| ").split("|")]
        found[cells[0], int(cells[1])] = [int(words.split("≤")[-1].replace(",", "")) for words in cells[2:7]]
    return found


def main():
    program, library = sys.argv[1:3]
    if subprocess.run([program], check=False).returncode == 3:
        skips.skip("no trap flag on this processor")
    allowed = bounds(sys.argv[3]) if len(sys.argv) > 3 else None
    good, seen = True, {}
    print("| block | stopped | first malloc | malloc, warm | free, warm | malloc, cold | free, cold | system calls |")
    print("|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        for stalled in STALLED:
            # The test makes fewer calls, because each instruction is a signal: that takes two minutes for the whole table.
            blocks = SIZES[size] if allowed is None else max(SIZES[size] // 4, 12)
            most = measure(program, library, size, stalled, blocks)
            seen[name(size), stalled] = [most[column][0] for column in COLUMNS]
            print(show(size, stalled, most), flush=True)
            # Less than that means that the calls never arrived in the library: then nothing was measured.
            if min(seen[name(size), stalled]) < 8:
                print("FAILED: a call of less than 8 instructions")
                good = False
    for row, values in seen.items() if allowed is not None else ():
        for column, value, bound in zip(COLUMNS, values, allowed.get(row, [0] * len(COLUMNS))):
            if value > bound:
                print(f"FAILED: {' '.join(column)} of {row[0]} with {row[1]} stalled: {value} instructions, at most {bound}")
                good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

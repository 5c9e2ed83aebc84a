#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Are the cells of the program pools the same ones, wherever they come from? check_pools.py POOLS LIBFREEHOLD.so OTHER.so...

Each of its variants runs in a tiny version: under the system's allocator, under the library, and under the others. The checksums
of one work must agree. Cells of 8 bytes of our pools must take 8 bytes each, and nobody else's may be taken for ours."""

import os
import subprocess
import sys

CELLS = 200000
PACKED = 9.4  # of 50,000 live cells, with 64 KiB that are not full


def run(program, words, library):
    done = subprocess.run([program, *words, f"n={CELLS}"], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.endswith("ok\n"):
        raise SystemExit(f"{library} {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def main():
    program, ours, *others = sys.argv[1:]
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    checks, bad = {}, []
    for line in listed:
        name, arguments, _ = line.split("\t")
        words = [word for word in arguments.split() if not word.startswith("n=")]
        work = next(word for word in words if word.startswith("work="))
        for library in ("", ours, *others):
            figures = run(program, words, library)
            where = f"{name} under {os.path.basename(library) or 'the system'}"
            checks.setdefault(work, {}).setdefault(figures["check"], []).append(where)
            size = float(figures["cell_bytes"])
            is_pool = library == ours and name == "pool-cells-8B-2t"
            if is_pool and not 8 <= size <= PACKED or not is_pool and size != 0:
                bad.append(f"{where}: {size} bytes a cell")
    bad += [f"{work}: checksums differ: {found}" for work, found in checks.items() if len(found) != 1]
    print("\n".join(bad) or f"{len(listed)} variants agree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

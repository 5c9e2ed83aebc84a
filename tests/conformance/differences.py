#!/usr/bin/env python3
"""Compares what differences.c sees with the tables of docs/compatibility.md.

differences.py DOCUMENT PROGRAM-OVER-GLIBC PROGRAM-OVER-FREEHOLD

Each behaviour of the program is a row of a table whose header begins with "behaviour", and the other way round. What was seen
is in backticks in the row: glibc's answer in the second column, which may name several for several versions, and
Freehold's in the third. The fourth says why, and is not empty."""

import re
import subprocess
import sys


def rows_of(path):
    rows, inside = {}, False
    for line in open(path, encoding="utf-8"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == "behaviour":
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            if cells[0] in rows:
                sys.exit(f"{path}: two rows for {cells[0]!r}")
            rows[cells[0]] = cells
    return rows


def answers_of(program):
    done = subprocess.run([program], capture_output=True, text=True, timeout=600, check=True)
    return dict(line.split(" | ") for line in done.stdout.splitlines())


def main():
    document, *programs = sys.argv[1:]
    rows, failures = rows_of(document), []
    seen = [answers_of(program) for program in programs]
    for name in sorted(set(rows) ^ set(seen[0])):
        failures.append(f"{name!r} is {'not tried' if name in rows else 'in no table'}")
    for name in seen[0]:
        print(f"{name}: glibc {seen[0][name]!r}, Freehold {seen[1][name]!r}")
        if name not in rows:
            continue
        _, glibc, ours, why = (rows[name] + ["", "", ""])[:4]
        for who, cell, answer in (("glibc", glibc, seen[0][name]), ("Freehold", ours, seen[1][name])):
            if answer not in re.findall(r"`([^`]*)`", cell):
                failures.append(f"{name!r}: {who} answers {answer!r}, the table says {cell!r}")
        if not why:
            failures.append(f"{name!r}: no word on why")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(seen[0])} behaviours, {len(failures)} failures")
    sys.exit(bool(failures) or not seen[0])


main()

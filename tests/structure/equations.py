#!/usr/bin/env python3
"""Each equation stands where its structure is drawn, and is checked: equations.py SOURCE-ROOT

The names are those of src/check/report.c. Each must appear in brackets in exactly one header of src/ outside of check/,
and in at least one comment of src/check/*.c beside the code that checks it. A name in brackets that report.c does not
have is an equation that nobody checks."""

import glob
import os
import re
import sys

NAME = r"(?:slot|slab|holes|chunk|edge|hint|count|magazine|depot|cache|limit)\.[a-z]+"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    source = os.path.join(sys.argv[1], "src")
    names = re.findall(r'^    \{"(' + NAME + r')",', read(os.path.join(source, "check/report.c")), re.M)
    drawn, checked, problems = {}, set(), []
    for path in sorted(glob.glob(os.path.join(source, "*/*.[ch]"))):
        inside = os.path.relpath(path, source)  # the tree itself may lie in a folder called "check"
        for name in re.findall(r"\[(" + NAME + r")\]", read(path)):
            if inside.startswith("check/"):
                checked.add(name)
            else:
                drawn.setdefault(name, []).append("src/" + inside)
    for name in names:
        if len(drawn.get(name, [])) != 1:
            problems.append(f"{name} should stand in one place, and stands in {drawn.get(name, [])}")
        if name not in checked:
            problems.append(f"no code of src/check says that it checks {name}")
    problems += [f"{name}, in {drawn[name]}, is checked nowhere" for name in drawn if name not in names]
    if len(names) < 20:
        problems.append(f"only {len(names)} equations found: nothing was compared")
    for problem in problems:
        print(problem)
    print(f"{len(names)} equations, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()

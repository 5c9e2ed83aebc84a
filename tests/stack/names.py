#!/usr/bin/env python3
"""Stacks of real programs, by name: names.py PROBE.SO WORK-FOLDER SOURCE-FOLDER LANGUAGE

The probe is preloaded and prints the stack of one allocation of an unusual size. The names come from the files' own symbol
tables. Asserted: the functions that are known to be on the stack are, in this order, with nothing between those that call
each other directly, and the walk arrived at the thread's beginning."""

import bisect
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

SIZE = 1234567

tables = {}


def symbols(path):
    """Addresses and names of a file's functions, sorted: of its whole symbol table, or of the dynamic one."""
    if path not in tables:
        found = []
        for option in ([], ["-D"]):
            out = subprocess.run(["nm", "-C", "--defined-only", *option, path], capture_output=True, text=True)
            for line in out.stdout.splitlines():
                parts = line.split(" ", 2)
                if len(parts) == 3 and parts[1] in "tTwWi":
                    found.append((int(parts[0], 16), parts[2]))
        tables[path] = sorted(set(found))
    return tables[path]


def name(path, offset):
    table = symbols(os.path.realpath(path))
    at = bisect.bisect_right(table, (offset, "\uffff"))
    return table[at - 1][1] if at else "?"


def stacks(command, probe, size):
    """The stacks that the probe printed, each a list of names, innermost first."""
    environment = dict(os.environ, LD_PRELOAD=probe, STACK_PROBE=str(size), PYTHONMALLOC="malloc")
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command}: {run.returncode}\n{run.stderr[-2000:]}")
    program = os.path.realpath(shutil.which(command[0]) or command[0])
    found, now = [], []
    for line in run.stderr.splitlines():
        words = line.split()
        if words[:1] == ["FRAME"]:
            now.append(name(program if words[1] == "/proc/self/exe" else words[1], int(words[2], 16)))
        elif words[:1] == ["END"]:
            found.append((now, words[-1] == "whole"))
            now = []
    return found


def check(what, stack, whole, expected):
    """expected: names, a "…" where others may lie between."""
    at, gap = 0, True
    for want in expected:
        if want == "…":
            gap = True
            continue
        here = next((i for i in range(at, len(stack)) if want in stack[i]), None)
        if here is None or (not gap and here != at):
            sys.exit(f"{what}: {want} is not where it should be in\n  " + "\n  ".join(stack))
        at, gap = here + 1, False
    if not whole:
        sys.exit(f"{what}: the walk did not arrive at the beginning:\n  " + "\n  ".join(stack))
    print(f"{what}: {len(stack)} frames, right")


def rust(probe, work, source):
    if not shutil.which("rustc"):
        skips.skip("no rustc")
    variants = (["-O"], ["-Copt-level=0"], ["-O", "-Cforce-frame-pointers=yes"], ["-O", "-Cpanic=abort"])
    for number, flags in enumerate(variants):
        out = os.path.join(work, f"language{number}")
        subprocess.run(["rustc", "-g", "--edition", "2021", *flags, "-o", out, os.path.join(source, "language.rs")], check=True)
        found = stacks([out, str(SIZE)], probe, SIZE)
        if len(found) != 2:
            sys.exit(f"{len(found)} stacks, two are expected")
        chain = ["…", "keep", "chain_inner", "…", "chain_outer", "…", "chain_caught", "…"]
        check(f"rust {' '.join(flags)}, main", *found[0], [*chain, "main", "…", "_start"])
        check(f"rust {' '.join(flags)}, a thread", *found[1], [*chain, "thread_start"])


def python(probe, _work, _source):
    program = shutil.which("python3")
    header = 33  # of a bytes object, and the zero behind it
    repeat = f"b'x' * int('{SIZE - header}')"
    found = stacks([program, "-S", "-c", f"def f(): return {repeat}\nlist(map(lambda _: f(), [1]))"], probe, SIZE)
    if not found:
        sys.exit("python: no allocation of that size")
    check("python, bytes", *found[0], ["…", "PyEval", "…", "PyEval", "…", "PyRun_", "…", "Py_BytesMain"])
    thread = f"import threading\nt = threading.Thread(target=lambda: {repeat})\nt.start()\nt.join()"
    found = stacks([program, "-S", "-c", thread], probe, SIZE)
    check("python, a thread", *found[0], ["…", "PyEval"])
    if "Py_BytesMain" in found[0][0]:
        sys.exit("python: the stack of a thread goes through main")


def main():
    probe, work, source, language = sys.argv[1:]
    if not shutil.which("nm"):
        skips.skip("no nm (package binutils)")
    os.makedirs(work, exist_ok=True)
    {"rust": rust, "python": python}[language](probe, work, source)


main()

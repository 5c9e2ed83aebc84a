#!/usr/bin/env python3
"""Samples against the count of another tool over the same program: tools_agree.py LIBRARY TOOL PROGRAM WORK-FOLDER

heaptrack and memray run the program without Freehold and see every call. heaptrack sees the whole process, so what lives at
the end must be the same, but for 5 sigma and what differs from run to run. memray begins once the interpreter is there."""

import json
import os
import re
import subprocess
import sys

import truth
from truth import PATIENCE, needs, skips

# A part of what is counted: names of files, the environment.
DIFFERENT = 0.02
INTERPRETER = 8 << 20


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **more)
    if done.returncode:
        raise SystemExit(f"FAILED: {command[:4]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def python_for_lists():
    return [os.path.realpath(sys.executable), "-c", truth.LISTS]


def heaptrack(program, work):
    """What lives at the end; it writes 26.72M for 26,720,000 bytes."""
    command = {"python": python_for_lists, "clang": lambda: truth.clang_command(work)}[program]()
    for name in os.listdir(work):
        if name.startswith("heaptrack."):
            os.unlink(os.path.join(work, name))
    environment = dict(os.environ, PYTHONMALLOC="malloc")
    run([needs("heaptrack"), "-o", os.path.join(work, "heaptrack"), *command], cwd=work, env=environment)
    record = next(name for name in os.listdir(work) if name.startswith("heaptrack."))
    told = re.search(r"^total memory leaked: ([0-9.]+)([BKMG])", run([needs("heaptrack_print"), record], cwd=work), re.M)
    bytes_ = float(told[1]) * 1000 ** "BKMG".index(told[2])
    return bytes_, bytes_ * (1 - DIFFERENT), bytes_ * DIFFERENT


def memray(program, work):
    """The most that ever lived, which of a program that only grows is what lives at the end."""
    assert program == "python"
    interpreter = os.environ.get("FREEHOLD_TEST_MEMRAY")
    if not interpreter:
        skips.skip("FREEHOLD_TEST_MEMRAY does not name a Python that has the module memray")
    script, record, told = (os.path.join(work, name) for name in ("lists.py", "memray.bin", "memray.json"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(truth.LISTS)
    environment = dict(os.environ, PYTHONMALLOC="malloc")
    run([interpreter, "-m", "memray", "run", "-q", "-f", "-o", record, script], env=environment)
    run([interpreter, "-m", "memray", "stats", "--json", "-f", "-o", told, record])
    with open(told, encoding="utf-8") as file:
        bytes_ = json.load(file)["metadata"]["peak_memory"]
    return bytes_, bytes_ * (1 - DIFFERENT), INTERPRETER


def main():
    library, tool, program, work = sys.argv[1:]
    os.makedirs(work, exist_ok=True)
    said, least, beside = {"heaptrack": heaptrack, "memray": memray}[tool](program, work)
    page, _ = truth.observed(library, work, {"python": truth.python, "clang": truth.clang}[program])
    if page.state != truth.ENDED:
        print(f"note: {program} ended without a last count; its samples are what is compared")
    if wrong := truth.compare(page, said, least, beside):
        print(f"FAILED: {program} by {tool}: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

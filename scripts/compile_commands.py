#!/usr/bin/env python3
"""Writes a list of compile commands in which each file stands once:  compile_commands.py BUILD FOLDER

CMake's list has a file once for every program that is made of it: a source of the library thirteen times, for the tests' own
builds of it. clang-tidy analyses it as often, and each time finds the same. What stays is how the library itself is built."""

import json
import os
import sys

build, folder = sys.argv[1:3]
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as commands:
    entries = json.load(commands)
once = {}
for entry in entries:
    if entry["file"] not in once or "freehold_core.dir/" in entry["command"]:
        once[entry["file"]] = entry
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as out:
    json.dump(list(once.values()), out, indent=1)

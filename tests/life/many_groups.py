#!/usr/bin/env python3
"""A process of many groups has a line in /proc/self/status that is longer than any buffer of ours. The limits that are read from the
lines behind it are found all the same: many_groups.py LIBRARY"""

import os
import pathlib
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import skips  # noqa: E402

EATS = "held = []\nwhile True: held.append(bytearray(1 << 20))"


def said(groups):
    def prepare():
        os.setgroups(groups)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    options = {"FREEHOLD": "on_oom=report", "LD_PRELOAD": sys.argv[1]}
    return subprocess.run([sys.executable, "-c", EATS], env={**os.environ, **options}, preexec_fn=prepare, capture_output=True,
                          text=True, check=False).stderr


if os.geteuid() != 0:
    skips.skip("only root can give a process groups")
for count in (0, 1, 24, 40, 1000):
    text = said([4_000_000_000 + i for i in range(count)])
    if "the limit on address space" not in text:
        sys.exit(f"CHECK FAILED: {count} groups, and the limit is not named: {text}")
print("the limit on address space is named, whatever the number of groups")

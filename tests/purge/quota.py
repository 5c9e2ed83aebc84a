#!/usr/bin/env python3
"""What is sized by processors is sized by the container's quota: quota.py PROGRAM FOLDER

verbose=1 says how many processors the library counts on. The quota is in plain files, in the forms of both versions of
control groups, on the own group and on one above it; a broken or missing file is no quota."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
HERE = len(os.sched_getaffinity(0))


def processors(version, inner, box):
    shutil.rmtree(FOLDER, ignore_errors=True)
    root = FOLDER if version == 2 else FOLDER / "cpu"
    (root / "box/inner").mkdir(parents=True)
    lines = "0::/box/inner\n" if version == 2 else "6:cpuset:/\n5:cpuacct,cpu:/box/inner\n3:memory:/\n0::/\n"
    (FOLDER / "self.cgroup").write_text(lines)
    for folder, quota in ((root / "box/inner", inner), (root / "box", box)):
        if quota is None:
            continue
        if version == 2:
            (folder / "cpu.max").write_text(quota + "\n")
        else:
            for name, value in zip(("cpu.cfs_quota_us", "cpu.cfs_period_us"), quota.split()):
                (folder / name).write_text(value + "\n")
    done = subprocess.run([PROGRAM], capture_output=True, text=True,
                          env={**os.environ, "FREEHOLD": "verbose=1", "FREEHOLD_GROUP_ROOT": str(FOLDER)})
    return int(re.search(r"CPUs (\d+)", done.stderr)[1])


for version, none in ((2, "max 100000"), (1, "-1 100000")):
    for inner, box, wanted in (
        (none, none, HERE),
        (None, None, HERE),
        ("100000 100000", none, 1),
        (none, "100000 100000", 1),
        ("50000 100000", none, 1),
        ("150000 100000", none, 2),
        ("150000 100000", "50000 50000", 1),
        ("6400000 100000", none, HERE),
        ("0 0", none, HERE),
        ("nonsense", none, HERE),
    ):
        got = processors(version, inner, box)
        if got != min(wanted, HERE):
            sys.exit(f"CHECK FAILED: version {version}, quota {inner} in {box}: {got} processors and not {min(wanted, HERE)}")
if HERE == 1:
    skips.skip_part("one processor only: a quota takes nothing away")
print("by its mask this process has", HERE)

#!/usr/bin/env python3
"""Replays the corpus: every block is filled and checked before it is released or resized.

    replay.py BUILD LIBFREEHOLD.SO ALLOCATOR [--must-fail]

The command is that of BUILD, or of the build folder around it. ALLOCATOR is what `freehold replay --on` is told: `freehold`, or `system` where the replayer beside the library
has it linked in. All traces of corpus/ are replayed once, and as many calls as the trace has must be made. With --must-fail the
allocator is broken, and at least one of the traces must find that: by a block that is wrong, or by the end of the process."""

import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACES = ["gcc", "git", "node", "phases", "postgres", "python", "redis", "rust", "sqlite"]


def wanted(command, trace):
    """Operations that allocate, resize or release, as the trace itself says."""
    done = subprocess.run([command, "trace", "info", trace], capture_output=True, text=True, check=True, timeout=60)
    return int(re.match(r"([\d,]+) operations", done.stdout)[1].replace(",", ""))


def replay(command, library, allocator, trace):
    """What went wrong, or None, and how many calls were made."""
    done = subprocess.run([command, "replay", trace, "--on", allocator, "--verify", "--repeats", "1", "--json", "--library", library],
                          capture_output=True, text=True, check=False, timeout=600)
    if not done.stdout:
        return f"exit code {done.returncode}: {done.stderr.strip()}", 0
    one = json.loads(done.stdout)["allocators"][0]
    if one["died"] or done.returncode:
        return f"{one['died'] or 'exit code ' + str(done.returncode)}: {done.stderr.strip()[-2000:]}", 0
    run = one["runs"][0]
    return (f"{run['wrong']} blocks were wrong, {run['failed']} calls failed" if run["wrong"] or run["failed"] else None), run["calls"]


def main():
    build, library, allocator = sys.argv[1:4]
    must_fail = "--must-fail" in sys.argv
    places = [os.path.join(place, "freehold") for place in (build, os.path.join(build, ".."), os.path.join(ROOT, "build"))]
    command = next((place for place in places if os.path.isfile(place)), None)
    if not command:
        skips.skip("no freehold command here: `make tool` builds it")
    traces = {os.path.basename(path)[:-len(".trace")]: path for path in glob.glob(os.path.join(ROOT, "corpus/*.trace"))}
    if sorted(traces) != TRACES:
        sys.exit(f"CHECK FAILED: the corpus has {sorted(traces)}")
    found = 0
    for name in TRACES:
        wrong, calls = replay(command, library, allocator, traces[name])
        print(f"{name}: {wrong or f'{calls:,} calls'}")
        operations = wanted(command, traces[name])
        # Beginnings and ends of threads are operations and no calls.
        if not wrong and not operations - 200 <= calls <= operations:
            wrong = f"{operations} operations"
            print(f"  of {wrong}")
        found += bool(wrong)
    if (found > 0) != must_fail:
        sys.exit(f"CHECK FAILED: {found} traces found something wrong")


main()

"""Instructions that valgrind's callgrind counts, for the tests that are Python scripts: the same on a busy machine."""

import os
import re
import shutil
import subprocess

import skips


def need():
    """Ends the script as skipped where there is no valgrind."""
    if not shutil.which("valgrind"):
        skips.skip("no valgrind")


def callgrind(command, out, environment, *options):
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options, *map(str, command)],
                          check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    return done.stderr


def collected(command, folder, environment=None):
    """All that the command executes, in the program and in its libraries."""
    out = os.path.join(folder, "callgrind.out")
    said = callgrind(command, out, environment or {})
    os.remove(out)
    return int(re.search(r"Collected : (\d+)", said)[1])


def inside(command, library, folder, environment):
    """What the command executes inside that library, by callgrind's own lines: `ob=` and `fn=` say where we are, a line after
    `calls=` is what a callee cost (counted there already), any other number line is a cost here."""
    out = os.path.join(folder, "callgrind.out")
    callgrind(command, out, environment, "-q", "--compress-strings=no", "--compress-pos=no")
    total, here, callee = 0, False, False
    name = os.path.basename(os.path.realpath(library))
    with open(out, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("ob="):
                here = os.path.basename(os.path.realpath(line[3:].strip())) == name
            elif line.startswith("calls="):
                callee = True
            elif re.match(r"[0-9+*-]", line):
                if here and not callee:
                    total += int(line.split()[1])
                callee = False
    os.remove(out)
    return total

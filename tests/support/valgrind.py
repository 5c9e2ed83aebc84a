"""Instructions that valgrind's callgrind counts, for the tests that are Python scripts: the same on a busy machine."""

import os
import re
import shutil
import subprocess

import skips

CALLGRIND = ["valgrind", "--tool=callgrind"]
# So that every line of the file says where it is.
WITH_NAMES = ["-q", "--compress-strings=no", "--compress-pos=no"]


def need():
    """Ends the script as skipped where there is no valgrind."""
    if not shutil.which("valgrind"):
        skips.skip("no valgrind")


def callgrind(command, out, environment, *options):
    done = subprocess.run([*CALLGRIND, f"--callgrind-out-file={out}", *options, *map(str, command)],
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
    """What the command executes inside that library."""
    out = os.path.join(folder, "callgrind.out")
    callgrind(command, out, environment, *WITH_NAMES)
    return taken_from(out, library)


def inside_each(program, runs, library, folder, environment):
    """The same for each of several runs of a program that takes them with a "/" between them, forks for each, writes the child's
    number, and calls `run` in it. Under valgrind it takes half a second to begin, once here. The count begins with `run`."""
    arguments = [str(word) for run in runs for word in ("/", *run)][1:]
    out = os.path.join(folder, "callgrind.out")
    command = [*CALLGRIND, f"--callgrind-out-file={out}.%p", *WITH_NAMES, "--zero-before=run", program, *arguments]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        # Read at once: on a busy machine the number is soon another process's.
        counts = [taken_from(f"{out}.{int(line)}", library) for line in process.stdout]
    if process.returncode or len(counts) != len(runs):
        raise SystemExit(f"{len(runs)} runs, {len(counts)} counts, ended with {process.returncode}")
    os.remove(f"{out}.{process.pid}")
    return counts


def taken_from(out, library):
    """By callgrind's own lines: `ob=` and `fn=` say where we are, a line after `calls=` is what a callee cost (counted there
    already), any other number line is a cost here."""
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

#!/usr/bin/env python3
"""Real programs whose sizes drift: phases.py NAME=LIBRARY NAME=LIBRARY... [--rounds N] [--each] [PROGRAM...]

Each program (programs.toml) runs in phases: it makes blocks of one size, frees most of those of the phase before at random,
and goes on to the next size. It says so at the end of each phase and waits, so that its memory can be read from /proc. All
libraries take turns in each round; the first one is what the others are compared with.

Printed for each program are medians over the rounds:
  phases   resident MiB at the end of each phase
  mean     their mean
  peak     the most that was ever resident
  cpu      user and system time, in seconds
and the ratios of all of these to the first library. With --each the figures of each run are printed too.

The protocol: a line "pid N" names the process that is measured if it is not the one that was started; a line "phase" ends a
phase, and is answered by an empty line."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = os.environ.get("BENCH_REAL") or os.path.dirname(HERE)
MIB = 1 << 20
LONGEST = 3600  # seconds that one run may take


def status(pid, field):
    """Bytes that /proc says in a field of a process's status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise SystemExit(f"process {pid} has no {field}")


def processor_time(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def has_library(pid, library):
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        return os.path.realpath(library) in file.read()


class Run:
    """One run of a program: what its phases left resident, its peak and its processor time."""

    def __init__(self, entry, library, folder, options):
        self.resident = []
        environment = dict(os.environ, PHASES=HERE, BENCH_REAL=REAL, PHASES_LIBRARY=os.path.realpath(library), PYTHONHASHSEED="0",
                           FREEHOLD=options)
        if not entry.get("places_library", False):
            environment["LD_PRELOAD"] = os.path.realpath(library)
        child = subprocess.Popen(["timeout", str(LONGEST), "sh", "-c", entry["command"]] if entry.get("places_library")
                                 else ["sh", "-c", entry["command"]], cwd=folder, env=environment, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid = child.pid
        try:
            self.follow(child, library)
        finally:
            child.stdin.close()
        _, code, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(code)
        if child.returncode:
            raise SystemExit(f"{entry['name']} ended with {child.returncode}")
        if not self.resident:  # no phases: the kernel's account of the whole
            self.peak = usage.ru_maxrss * 1024
            self.cpu = usage.ru_utime + usage.ru_stime

    def follow(self, child, library):
        for line in child.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "pid":
                self.pid = int(rest)
            if word != "phase":
                continue
            if not self.resident and not has_library(self.pid, library):
                raise SystemExit(f"{library} is not in the process that is measured")
            self.resident.append(status(self.pid, "VmRSS"))
            self.peak = status(self.pid, "VmHWM")
            self.cpu = processor_time(self.pid)
            child.stdin.write("\n")
            child.stdin.flush()

    def figures(self):
        mean = [statistics.fmean(self.resident)] if self.resident else []
        return [x / MIB for x in [*self.resident, *mean, self.peak]] + [self.cpu]


def row(name, figures, form):
    print(f"  {name:12} " + " ".join(f"{x:{form}}" for x in figures), flush=True)


def measure(entry, libraries, a):
    runs = {name: [] for name in libraries}
    with tempfile.TemporaryDirectory() as folder:
        if "setup" in entry:
            subprocess.run(["sh", "-c", entry["setup"]], cwd=folder, env=dict(os.environ, PHASES=HERE, BENCH_REAL=REAL), check=True,
                           stdout=subprocess.DEVNULL)
        for number in range(a.rounds):
            # Every other round the other way round, so that a machine that grows slower favours nobody.
            for name in list(libraries)[::1 if number % 2 == 0 else -1]:
                runs[name].append(Run(entry, libraries[name], folder, a.options).figures())
                if a.each:
                    row(name, runs[name][-1], "7.2f")
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in runs.items()}
    first = next(iter(medians.values()))
    phases = len(first) - 3
    heads = [f"{'phase ' + str(i + 1):>7}" for i in range(phases)] + (["   mean"] if phases > 0 else [])
    print(f"{entry['name']}\n  {'':12} " + " ".join([*heads, "   peak", "  cpu s"]))
    for name, figures in medians.items():
        row(name, figures, "7.2f")
    for name, figures in list(medians.items())[1:]:
        row(f"{name}/{next(iter(medians))}", [x / y if y else 1 for x, y in zip(figures, first)], "7.3f")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--each", action="store_true")
    a.add_argument("--options", default="", help="what the variable FREEHOLD is to be")
    a.add_argument("word", nargs="+", help="NAME=LIBRARY, or the name of a program")
    a = a.parse_intermixed_args()
    libraries = dict(w.split("=", 1) for w in a.word if "=" in w)
    names = [w for w in a.word if "=" not in w]
    with open(os.path.join(HERE, "programs.toml"), "rb") as file:
        entries = tomllib.load(file)["program"]
    unknown = set(names) - {e["name"] for e in entries}
    if unknown or not libraries:
        raise SystemExit(f"unknown program: {', '.join(unknown)}" if unknown else "which libraries?")
    for entry in entries:
        if names and entry["name"] not in names:
            continue
        if not all(map(shutil.which, entry["needs"])):
            print(f"{entry['name']}: SKIPPED, needs {', '.join(entry['needs'])}")
            continue
        measure(entry, libraries, a)
    return 0


sys.exit(main())

#!/usr/bin/env python3
"""What being observed costs real programs: overhead.py LIBFREEHOLD.SO [--seconds S] [--instructions | --calls] [NAME...]

Each program of bench/real/real.toml (the quick ones, or those named) runs with the library, not observed and observed (one
sample per 512 KiB). Compared is one of three things:

processor time     (as it is) user and system, by the kernel's account, in blocks of four runs: plain, observed, observed,
                   plain, all on one processor, so that neither a machine that grows slower nor the order makes a
                   difference. A block gives a ratio; printed is the mean of the middle half of them, and between
                   which two figures it lies with 95 % (bootstrap). S seconds a program (60), five blocks at least.
instructions       (--instructions) in user mode, counted by valgrind: needs no quiet machine.
system calls       (--calls) counted by strace.

With --most RATIO it fails if a ratio of instructions is larger in each of four runs: that is a test. Two runs of one library
differ by up to a percent. Time is not asserted."""

import argparse
import glob
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from math import exp, log

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402
import valgrind  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = os.path.join(HERE, "..", "..", "bench", "real")
FEWEST = 5
RESAMPLED = 2000
TRIES = 4  # runs of which one has to be within --most


class Program:
    """One of the real programs, set up in a folder of its own."""

    def __init__(self, entry, folder, library):
        self.entry, self.folder = entry, folder
        # Python's sets of strings have another order in each run without it.
        self.plain = dict(os.environ, BENCH_REAL=os.path.realpath(REAL), PYTHONHASHSEED="0", FREEHOLD="")
        if "setup" in entry:
            subprocess.run(["sh", "-c", entry["setup"]], cwd=folder, env=self.plain, check=True, capture_output=True)
        self.place(library)

    def place(self, library):
        self.plain["BENCH_PRELOAD" if self.places_library else "LD_PRELOAD"] = library

    @property
    def places_library(self):
        return self.entry.get("places_library", False)

    def run(self, observed, before=(), cpu=None):
        """Runs it behind the words `before`; (seconds of processor time, what it printed)."""
        environment = dict(self.plain, FREEHOLD="observe=1") if observed else self.plain
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen([*before, "sh", "-c", self.entry["command"]], cwd=self.folder, env=environment,
                                     stdout=out, stderr=subprocess.DEVNULL,
                                     preexec_fn=cpu is not None and (lambda: os.sched_setaffinity(0, {cpu})) or None)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                raise SystemExit(f"{self.entry['name']}: {self.entry['command']} ended with {child.returncode}")
            out.seek(0)
            said = out.read().decode(errors="replace")
        own = re.search(r"^cpu_s ([\d.]+)", said, re.M)  # of the one process that has the library
        return float(own[1]) if own else usage.ru_utime + usage.ru_stime, said


def middle(logs):
    """The mean of the middle half."""
    cut = len(logs) // 4
    return statistics.fmean(sorted(logs)[cut:len(logs) - cut])


def interval(samples):
    """The mean over the programs of the middles of their logarithms, and its 95 % interval by bootstrap."""
    dice = random.Random(1)
    means = sorted(statistics.fmean(middle(dice.choices(logs, k=len(logs))) for logs in samples)
                   for _ in range(RESAMPLED))
    return [exp(x) for x in (statistics.fmean(map(middle, samples)), means[RESAMPLED // 40], means[-RESAMPLED // 40])]


def times(program, seconds):
    """Logarithms of the ratios of as many blocks as the seconds allow."""
    processors = sorted(os.sched_getaffinity(0))
    program.run(True)  # warms the file cache
    logs, spent, sums = [], 0, [0, 0]
    while spent < seconds or len(logs) < FEWEST:
        cpu = None if program.places_library else processors[len(logs) % len(processors)]
        took = [(on, program.run(on, cpu=cpu)[0]) for on in (False, True, True, False)]
        plain, observed = (sum(t for o, t in took if o == on) for on in (False, True))
        logs.append(log(observed / plain))
        spent += plain + observed
        sums = [sums[0] + plain, sums[1] + observed]
    return logs, [s / 2 / len(logs) for s in sums]


def instructions(program, observed):
    with tempfile.TemporaryDirectory() as folder:
        program.run(observed, ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes",
                               f"--cachegrind-out-file={folder}/%p"])
        total = 0
        for path in glob.glob(folder + "/*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            total += int(re.search(r"^summary: (\d+)", text, re.M)[1])
        return total


def calls(program, observed):
    with tempfile.NamedTemporaryFile() as file:
        program.run(observed, ["strace", "-f", "-c", "-o", file.name])
        return int(re.search(r"^\S+\s+\S+\s+\S*\s*(\d+)\s+(?:\d+\s+)?total$", file.read().decode(), re.M)[1])


def count(program, how):
    plain, observed = how(program, False), how(program, True)
    print(f"{program.entry['name']:22} {plain:15,} {observed:15,} {observed - plain:+13,} {observed / plain:9.4f}", flush=True)
    return observed / plain


def chosen(names, any_library):
    with open(os.path.join(REAL, "real.toml"), "rb") as file:
        entries = tomllib.load(file)["real"]
    for e in entries:
        if (e["name"] in names if names else e.get("quick")) and all(map(shutil.which, e["needs"])):
            if any_library or not e.get("places_library"):
                yield e


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("library")
    a.add_argument("--seconds", type=float, default=60)
    a.add_argument("--instructions", action="store_true")
    a.add_argument("--calls", action="store_true")
    a.add_argument("--clock", help="libslow_clock.so; otherwise sought beside the library")
    a.add_argument("--most", type=float)
    a.add_argument("name", nargs="*")
    a = a.parse_intermixed_args()
    library = os.path.realpath(a.library)
    preload = library
    if a.instructions:
        valgrind.need()
        preload = (a.clock or os.path.join(os.path.dirname(library), "tests/observe/libslow_clock.so")) + " " + library
    samples, ratios = [], []
    counted = a.instructions or a.calls
    print(f"{'program':22} " + (f"{'plain':>15} {'observed':>15} {'more':>13} {'ratio':>9}" if counted else
                               f"{'plain s':>9} {'observed':>9} {'blocks':>7} {'ratio':>7}  95 %"), flush=True)
    for entry in chosen(a.name, not counted):
        with tempfile.TemporaryDirectory() as folder:
            program = Program(entry, folder, preload)
            if counted:
                what = instructions if a.instructions else calls
                ratio = count(program, what)
                # Samples fall elsewhere in each run, and statistics are taken by the clock: a percent either way.
                for _ in range(TRIES - 1):
                    if not a.most or ratio <= a.most:
                        break
                    ratio = min(ratio, count(program, what))
                ratios.append(ratio)
                continue
            logs, means = times(program, a.seconds)
            samples.append(logs)
            print(f"{entry['name']:22} {means[0]:9.3f} {means[1]:9.3f} {len(logs):7} "
                  "{:7.4f}  {:.4f} … {:.4f}".format(*interval([logs])), flush=True)
    if samples:
        print(f"{'geometric mean':22} {'':9} {'':9} {'':7} " + "{:7.4f}  {:.4f} … {:.4f}".format(*interval(samples)))
    if ratios:
        print(f"{'geometric mean':68} {statistics.geometric_mean(ratios):9.4f}")
    if not samples and not ratios:
        skips.skip("none of the programs is here")
    if a.most and max(ratios) > a.most:
        print(f"FAILED: a ratio of {max(ratios):.4f}, and {a.most} is the most", file=sys.stderr)
        return 1
    return 0


sys.exit(main())

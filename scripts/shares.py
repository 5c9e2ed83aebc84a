#!/usr/bin/env python3
"""What the real programs of the suite wait for: the share of their CPU time that is the allocator's, and the kernel's.

    scripts/shares.py [BUILD] [--programs WORDS] [--repeats N]

Each program of bench/real/real.toml runs under Freehold and under mimalloc 3, with `perf record` on it. A sample counts for the
allocator if it is in its shared object; for the kernel, which makes and takes pages among other things; or for the
program. Prints a table in Markdown. A program is left out, with the reason on stderr, where it is not installed, fails, or starts
a server that is given the library by itself.

Needs perf (Debian: linux-perf) and leave to use it (kernel.perf_event_paranoid), and the peers (`freehold bench peers`).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REAL = os.path.join(ROOT, "bench", "real")


def shares(report, library):
    """Of a report of perf by shared objects, the percentages of the library and of the kernel."""
    own = kernel = 0.0
    for line in report.splitlines():
        found = re.match(r"\s*([\d.]+)%\s+(\S.*\S)", line)
        if not found:
            continue
        if found[2].startswith("[kernel"):
            kernel += float(found[1])
        elif found[2].startswith(os.path.basename(library)):
            own += float(found[1])
    return own, kernel


def measure(program, library, folder):
    """The shares of one run; a reason instead if it cannot be measured."""
    environment = {**os.environ, "BENCH_REAL": REAL, "LD_PRELOAD": library}
    data = os.path.join(folder, "perf.data")
    run = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1000", "-o", data, "--", "sh", "-c", program["command"]]
    done = subprocess.run(run, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    report = subprocess.run(["perf", "report", "-i", data, "--sort", "dso", "--stdio"], capture_output=True, text=True)
    return shares(report.stdout, library), None


def median(values):
    return sorted(values)[len(values) // 2]


def row(name, values):
    return f"| {name} | " + " | ".join(f"{value:.1f} %" for value in values) + " |"


def self_test():
    report = """
# Samples: 2K of event 'cpu-clock'
    81.50%  perl
     9.25%  libfreehold.so.0.1.0
     6.00%  [kernel.kallsyms]
     2.25%  libc.so.6
     1.00%  mimalloc3.so
"""
    assert shares(report, "/somewhere/libfreehold.so.0.1.0") == (9.25, 6.0)
    assert shares(report, "/somewhere/mimalloc3.so") == (1.0, 6.0)
    assert shares("", "/somewhere/mimalloc3.so") == (0.0, 0.0)
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert row("a", [1.0, 2.25]) == "| a | 1.0 % | 2.2 % |"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("build", nargs="?", default="build")
    options.add_argument("--programs", default="", help="only those with one of these words in their names")
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--self-test", action="store_true")
    wanted = options.parse_args()
    if wanted.self_test:
        return self_test()
    if not shutil.which("perf"):
        sys.exit("shares: perf is not installed (Debian: linux-perf)")
    names = ["libfreehold.so", os.path.join("peers", "mimalloc3.so")]
    libraries = [os.path.realpath(os.path.join(wanted.build, name)) for name in names]
    for library in libraries:
        if not os.path.exists(library):
            sys.exit(f"shares: there is no {library}: make, and freehold bench peers")
    with open(os.path.join(REAL, "real.toml"), "rb") as file:
        programs = tomllib.load(file)["real"]
    words, rows = wanted.programs.split(), []
    print("| program | Freehold: allocator | kernel | mimalloc 3: allocator | kernel |\n|---|---|---|---|---|")
    for program in programs:
        name = program["name"]
        if words and not any(word in name for word in words):
            continue
        missing = [need for need in program["needs"] if not shutil.which(need)]
        reason = f"{missing[0]} is not installed" if missing else "it is a server" if program.get("places_library") else None
        with tempfile.TemporaryDirectory() as folder:
            if not reason and "setup" in program:
                environment = {**os.environ, "BENCH_REAL": REAL}
                setup = subprocess.run(["sh", "-c", program["setup"]], cwd=folder, env=environment, capture_output=True)
                reason = "its setup fails" if setup.returncode else None
            values = []
            for library in [] if reason else libraries:
                runs = [measure(program, library, folder) for _ in range(wanted.repeats)]
                reason = reason or next((why for _, why in runs if why), None)
                if not reason:
                    values += [median([run[0][part] for run in runs]) for part in (0, 1)]
        if reason:
            print(f"shares: {name} is left out: {reason}", file=sys.stderr)
        else:
            rows.append(values)
            print(row(f"`{name}`", values), flush=True)
    if rows:
        print(row("mean", [sum(column) / len(rows) for column in zip(*rows)]))


if __name__ == "__main__":
    main()

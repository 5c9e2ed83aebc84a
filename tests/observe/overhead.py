#!/usr/bin/env python3
"""What being observed costs real programs: overhead.py LIBFREEHOLD.SO [ROUNDS [NAME...]]

Each program of bench/real/real.toml runs with the library, not observed and observed (one sample per 512 KiB) in turn,
ROUNDS times, and processor time (user and system) is compared: the medians, and the median of the ratios of neighbours, which
suffers less from what else the machine does. The page lies where it does by itself, in /dev/shm. Not a test: it asserts
nothing, as times on a busy machine prove nothing."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = os.path.join(HERE, "..", "..", "bench", "real")


def seconds(command, folder, environment):
    child = subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def main():
    library = os.path.realpath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    wanted = sys.argv[3:]
    with open(os.path.join(REAL, "real.toml"), "rb") as file:
        programs = [p for p in tomllib.load(file)["real"] if not p.get("places_library")]
    ratios = []
    print(f"{'program':22} {'plain s':>9} {'observed':>9} {'medians':>8} {'pairs':>8}")
    for program in programs:
        if wanted and program["name"] not in wanted or not wanted and not program.get("quick"):
            continue
        if not all(map(shutil.which, program["needs"])):
            continue
        with tempfile.TemporaryDirectory() as folder:
            plain = dict(os.environ, BENCH_REAL=os.path.realpath(REAL))
            if "setup" in program:
                subprocess.run(["sh", "-c", program["setup"]], cwd=folder, env=plain, check=True, capture_output=True)
            plain["LD_PRELOAD"] = library
            observed = dict(plain, FREEHOLD="observe=1")
            times = {False: [], True: []}
            for i in range(rounds + 1):
                for on in (i % 2 == 0, i % 2 == 1):
                    took = seconds(program["command"], folder, observed if on else plain)
                    if i:  # the first round warms the file cache
                        times[on].append(took)
            medians = {on: statistics.median(t) for on, t in times.items()}
            pairs = statistics.median(b / a for a, b in zip(times[False], times[True]))
            ratios.append(pairs)
            print(f"{program['name']:22} {medians[False]:9.3f} {medians[True]:9.3f} "
                  f"{medians[True] / medians[False]:8.3f} {pairs:8.3f}", flush=True)
    if ratios:
        print(f"{'geometric mean':22} {'':9} {'':9} {'':8} {statistics.geometric_mean(ratios):8.3f}")


main()

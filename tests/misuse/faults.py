#!/usr/bin/env python3
"""Which misuse an allocator finds, and when: the table of docs/misuse.md, or the shares that ours has to reach.

faults.py table FAULTS-PROGRAM LIBFREEHOLD.SO [TRIALS]          allocators × faults; peers from build/peers, Debian's clang, musl
faults.py price FAULTS-PROGRAM LIBFREEHOLD.SO TRACE-PROGRAM     instructions and memory of a mix of a server, for each
faults.py check FAULTS-PROGRAM LIBFREEHOLD.SO                   fails if a share of ours is too small

faults.c says what a trial is. What the machine lacks is counted as skipped."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import skips  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
TRIALS = 50
CHECKED_TRIALS = 10
SCUDO = "libclang_rt.scudo_standalone-x86_64.so"
# name: patterns of libraries, of which the last found is taken; then the words of the environment that turn its messages on
PEERS = {"glibc": ([], {}),
         "musl": (["musl"], {}),
         "mimalloc 3": ([f"{ROOT}/build/peers/mimalloc34.so", f"{ROOT}/build/peers/mimalloc3.so"], {"MIMALLOC_SHOW_ERRORS": "1"}),
         "mimalloc-secure": ([f"{ROOT}/build/peers/mimalloc-secure.so"], {"MIMALLOC_SHOW_ERRORS": "1"}),
         "jemalloc": ([f"{ROOT}/build/peers/jemalloc.so"], {}),
         "scudo": ([f"/usr/lib/llvm-*/lib/clang/*/lib/linux/{SCUDO}", f"/usr/lib/clang/*/lib/linux/{SCUDO}"], {}),
         "snmalloc": ([f"{ROOT}/build/peers/snmalloc.so"], {})}
OURS = {"Freehold": "", "check=1": "check=1", "guard=1": "guard=1", "harden=1": "harden=1"}
# mode: {fault: percent that has to be found at the call}, and then the same for what is found at all
AT_CALL = {"Freehold": {"double-free-at-once": 100, "double-free-after-10": 95, "free-of-static-data": 100,
                        "free-of-the-stack": 100, "realloc-of-freed": 100},
           "check=1": {"double-free-at-once": 100, "double-free-after-10": 100, "double-free-after-1000000": 100,
                       "double-free-across-threads": 100, "free-of-the-middle": 100, "free-of-static-data": 100,
                       "free-of-the-stack": 100, "size-mismatch": 100, "realloc-of-freed": 100},
           "harden=1": {"double-free-at-once": 100, "double-free-after-10": 100, "double-free-after-1000000": 100,
                        "double-free-across-threads": 100, "overflow-by-65536": 100, "free-of-the-middle": 100,
                        "free-of-static-data": 100, "free-of-the-stack": 100, "realloc-of-freed": 100}}
AT_ALL = {"check=1": {"overflow-by-1": 100, "overflow-by-100": 100, "overflow-by-65536": 100, "write-after-free": 100}}


def environment_of(library, words):
    environment = {**os.environ, "FREEHOLD": "", **words}
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = os.path.abspath(library)
    return environment


def run(program, environment, fault, trials):
    """Of so many trials: found at the call, later, crashed, never. None: the allocator has no such function."""
    done = subprocess.run([program, fault, str(trials)], env=environment, capture_output=True, text=True, timeout=1200,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {fault}: ended with {done.returncode}: {done.stderr}")
    return None if done.stdout.startswith("absent") else [int(word) for word in done.stdout.split()]


def build_with_musl(folder):
    if not shutil.which("musl-gcc"):
        return None
    program = os.path.join(folder, "faults-musl")
    subprocess.run(["musl-gcc", "-O2", "-fno-builtin", "-D_GNU_SOURCE", f"{HERE}/faults.c", "-o", program], check=True)
    return program


def columns(program, library, folder):
    """(name, program, environment) of each allocator that is here."""
    chosen = []
    for name, (patterns, words) in PEERS.items():
        found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
        musl = build_with_musl(folder) if name == "musl" else None
        if musl or found or not patterns:
            chosen.append((name, musl or program, environment_of(found[-1] if found else None, words)))
        else:
            skips.skip_part(f"no {name} on this machine")
    return chosen + [(name, program, environment_of(library, {"FREEHOLD": words})) for name, words in OURS.items()]


def faults_of(program):
    return subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout.split()


def table(program, library, trials):
    with tempfile.TemporaryDirectory() as folder:
        chosen = columns(program, library, folder)
        print(f"In percent of {trials} trials: at the call / later / crash or endless loop / never.\n")
        print("| fault | " + " | ".join(name for name, _, _ in chosen) + " |")
        print("|---|" + "---|" * len(chosen))
        for fault in faults_of(program):
            cells = [run(one, environment, fault, trials) for _, one, environment in chosen]
            shares = [" / ".join(str(round(100 * n / trials)) for n in cell) if cell else "—" for cell in cells]
            print(f"| {fault.replace('-', ' ')} | " + " | ".join(shares) + " |", flush=True)


def instructions_of(trace, environment, folder):
    """Of the trace's one pass, as callgrind counts them. None: the allocator does not run there."""
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind", trace, "passes=1"],
                          env=environment, capture_output=True, text=True, timeout=1800, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else None


def memory_of(trace, environment):
    child = subprocess.Popen([trace, "passes=1"], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{trace} ended with {status}")
    return usage.ru_maxrss / 1024


def price(program, library, trace):
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        # A program of musl's is another program; its instructions would not compare.
        chosen = [(name, env) for name, one, env in columns(program, library, folder) if one == program]
        rows = [(name, instructions_of(trace, env, folder), memory_of(trace, env)) for name, env in chosen]
    _, first, least = rows[0]
    print("| allocator | million instructions | to glibc | MiB resident | to glibc |\n|---|---|---|---|---|")
    for name, count, memory in rows:
        counted = f"{count / 1e6:.0f} | {count / first:.2f}" if count else "does not run under valgrind | —"
        print(f"| {name} | {counted} | {memory:.1f} | {memory / least:.2f} |")


def check(program, library):
    good = True
    for wanted, outcomes, what in ((AT_CALL, 1, "at the call"), (AT_ALL, 2, "in all")):
        for mode, least_of in wanted.items():
            for fault, least in least_of.items():
                found = run(program, environment_of(library, {"FREEHOLD": OURS[mode]}), fault, CHECKED_TRIALS)
                if not found:
                    skips.skip_part(f"{fault}: no operator delete with a size")
                    continue
                share = 100 * sum(found[:outcomes]) / CHECKED_TRIALS
                good = good and share >= least
                print(f"{'ok' if share >= least else 'FAILED':7} {mode:9} {fault:28} {share:.0f} % found {what}, "
                      f"at least {least} wanted")
    sys.exit(0 if good else 1)


def main():
    what, program, library, *rest = sys.argv[1:]
    if what == "table":
        table(program, library, int(rest[0]) if rest else TRIALS)
    elif what == "price":
        price(program, library, rest[0])
    else:
        check(program, library)


main()

#!/usr/bin/env python3
"""Real programs that resize much, observed, against what they count themselves: truth.py LIBRARY NAME WORK-FOLDER

What lives at the end by the samples, in bytes that were asked for, must be what the program says (redis its used_memory,
Python the sizes of its lists), and what the allocator has counted: within 5 sigma, and no more than rounding to classes
makes. Samples and counts are made in different ways: the counts are bits of slabs. One sample in 64 KiB, so that sigma is
a percent or two. What it says of itself goes through `truth BYTES` on its output."""

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import profile_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

SIGMAS = 5
INTERVAL = 65536
ENDED = 2  # the state of a page whose program ended by itself
# Rounding of a block to its class is an eighth at most above 128 bytes, and a hole may be a quarter larger.
ROUNDING = 1.34
# What a program has beside that of which it says how much it is.
BESIDE = 24 << 20
PATIENCE = 300

LISTS = """
import sys
lists = [[] for _ in range(20000)]
for i in range(120):
    for one in lists:
        one.append(i)
print("truth", sum(map(sys.getsizeof, lists)), flush=True)
import os
os._exit(0)
"""
BUFFERS = """
const kept = [];
for (let i = 0; i < 300; i++) {
    let one = Buffer.allocUnsafeSlow(1000);
    for (let n = 2000; n <= 64000; n *= 2) { const more = Buffer.allocUnsafeSlow(n); one.copy(more); one = more; }
    kept.push(one);
}
console.log("truth " + kept.reduce((sum, one) => sum + one.length, 0));
process.reallyExit(0);
"""


def needs(program):
    path = shutil.which(program)
    if not path:
        skips.skip(f"no {program}")
    return path


def end_of(command, environment, work):
    """Runs it; what it says of itself, or None."""
    program = subprocess.run(command, env=environment, cwd=work, capture_output=True, text=True, timeout=PATIENCE)
    if program.returncode:
        raise SystemExit(f"FAILED: {command[0]} ended with {program.returncode}: {program.stderr[-500:]}")
    said = re.search(r"^truth (\d+)", program.stdout, re.M)
    return int(said[1]) if said else None


def python(environment, work):
    # Not the name, which may be a script that chooses one of several; and without the allocator of its own.
    return end_of([os.path.realpath(sys.executable), "-c", LISTS], dict(environment, PYTHONMALLOC="malloc"), work)


def node(environment, work):
    return end_of([needs("node"), "-e", BUFFERS], environment, work)


def ffmpeg(environment, work):
    end_of([needs("ffmpeg"), "-v", "error", "-f", "lavfi", "-i", "testsrc=d=4:s=640x360", "-f", "rawvideo", "-y", "/dev/null"],
           environment, work)


def clang_command(work):
    with open(os.path.join(work, "many.c"), "w", encoding="utf-8") as file:
        file.writelines(f"int f{i}(int x) {{ return x * {i} + f{max(i - 1, 0)}(x - 1); }}\n" for i in range(8000))
    return [needs("clang"), "-O1", "-w", "-fsyntax-only", "-fintegrated-cc1", "many.c"]


def clang(environment, work):
    end_of(clang_command(work), environment, work)


def redis(environment, work):
    """Lists of 500 bytes an entry: each push resizes a node of the list."""
    server, bench, cli = (needs(f"redis-{name}") for name in ("server", "benchmark", "cli"))
    socket = os.path.join(tempfile.mkdtemp(prefix="freehold-truth-"), "s")
    program = subprocess.Popen([server, "--port", "0", "--unixsocket", socket, "--save", "", "--daemonize", "no"],
                               env=environment, cwd=work, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE
        while not os.path.exists(socket) and program.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        subprocess.run([bench, "-s", socket, "-q", "-n", "50000", "-P", "32", "-t", "lpush", "-d", "500"], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)
        said = subprocess.run([cli, "-s", socket, "info", "memory"], check=True, capture_output=True, text=True,
                              timeout=PATIENCE).stdout
        subprocess.run([cli, "-s", socket, "shutdown", "nosave"], timeout=PATIENCE, check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        program.wait(timeout=PATIENCE)
        return int(re.search(r"used_memory:(\d+)", said)[1])
    finally:
        if program.poll() is None:
            program.kill()
            program.wait()
        shutil.rmtree(os.path.dirname(socket), ignore_errors=True)


def compare(found, said, least=None, most_beside=BESIDE):
    """What is wrong, or None. `said`: bytes by somebody else, and of how many at least and how many more they may be a part."""
    bad = found.check(slack=64)
    if bad:
        return bad[0]
    if found.control["lost_samples"]:
        return f"{found.control['lost_samples']} samples lost"
    live = variance = number = 0
    for sample in found.samples():
        size, _, squared = profile_file.weight(sample["size"], sample["drawn"], sample["interval"])
        live, variance, number = live + size, variance + squared, number + 1
    counts = found.figures()
    counted = counts["live_bytes"] + counts["huge_bytes"]
    most = SIGMAS * math.sqrt(max(variance, counted * INTERVAL)) + SIGMAS * INTERVAL
    print(f"{os.path.basename(found.program)}: {found.control['taken']} samples; live by {number} of them {live / 2**20:.1f} ± "
          f"{math.sqrt(variance) / 2**20:.1f} MiB, counted {counted / 2**20:.1f}"
          + (f", by others {said / 2**20:.1f}" if said else ""))
    if found.control["taken"] < 80:
        return f"only {found.control['taken']} samples, which prove nothing"
    # Counts of a program that ended otherwise may be of another moment.
    at_end = found.state == ENDED
    if not at_end and not said:
        return "there is nothing to compare with"
    if at_end and live > counted + most:
        return f"the samples make {live:.0f} bytes of {counted}"
    if at_end and ROUNDING * (live + most) + (1 << 20) < counted:
        return f"the samples make only {live:.0f} bytes of {counted}"
    if said and not (least or said / ROUNDING) - most < live < said + most_beside + most:
        return f"the samples make {live:.0f} bytes, and said are {said}"
    return None


def observed(library, work, act):
    """Lets `act` run a program observed; the page of it, and what `act` gave."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        environment = dict(os.environ, LD_PRELOAD=os.path.realpath(library),
                           FREEHOLD=f"observe=1,sample={INTERVAL},page={folder}")
        said = act(environment, work)
        pages = [profile_file.read(os.path.join(folder, page)) for page in os.listdir(folder)]
    if not pages:
        raise SystemExit("FAILED: no page")
    # A wrapper is not what is meant: the process that sampled most is.
    return max(pages, key=lambda page: page.control["taken"]), said


def main():
    library, name, work = sys.argv[1:]
    act = {"python": python, "node": node, "ffmpeg": ffmpeg, "clang": clang, "redis": redis}[name]
    os.makedirs(work, exist_ok=True)
    if wrong := compare(*observed(library, work, act)):
        print(f"FAILED: {name}: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

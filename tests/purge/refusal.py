#!/usr/bin/env python3
"""What is said when the program gets no memory: refusal.py PROGRAM FOLDER

One line, once, that names the limit which was met, with figures that are true; nothing where it would only disturb."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SIZE = r"(\d+(?:\.\d)? (?:B|[KMGTPE]iB))"


def bytes_of(text):
    number, unit = text.split()
    return float(number) * 1024 ** " KMGTPE".index(unit[0].replace("B", " "))


def check(condition, message):
    if not condition:
        sys.exit(f"CHECK FAILED: {message}")


def run(*words, options="", group=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FREEHOLD")}
    environment["FREEHOLD"] = options
    if group:
        environment["FREEHOLD_GROUP_ROOT"] = str(group)
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)
    check(done.returncode == 0, f"{words}: status {done.returncode}, {done.stderr}")
    return done.stderr


def one_line(said, pattern):
    """The one line must be as the pattern says; returns the groups."""
    lines = said.splitlines()
    check(len(lines) == 1, f"one line was expected and not {len(lines)}: {said}")
    whole = (rf"freehold: no memory for a block of {SIZE}: {pattern}.*; this heap has {SIZE} in use: freehold run PROGRAM "
             r"shows by which call sites \(option on_oom\)")
    found = re.fullmatch(whole, lines[0])
    check(found, f"the line is not as it should be: {lines[0]}\n(wanted: {whole})")
    print(lines[0])
    return [bytes_of(g) if re.fullmatch(SIZE, g) else g for g in found.groups()]


def met_by(numbers):
    """Block, limit, used, more, heap: the sum must be beyond the limit, and the heap a part of it."""
    block, limit, used, more, heap = numbers
    check(used <= limit * 1.01 < (used + more) * 1.02, f"not met: {numbers}")
    check(more >= block, f"less was asked for than the block: {numbers}")
    check(heap <= used, f"the heap is larger than what is used: {numbers}")


ADDRESSES = (rf"the limit on address space \(ulimit -v, RLIMIT_AS\) of {SIZE} is met: {SIZE} are mapped, {SIZE} more were "
             r"asked for; raise it with ulimit -v")


def limits_of_the_process():
    met_by(one_line(run("address"), ADDRESSES))
    met_by(one_line(run("address-huge"), ADDRESSES))
    met_by(one_line(run("data"), rf"the limit on data \(ulimit -d, RLIMIT_DATA\) of {SIZE} is met: {SIZE} are mapped "
                    rf"writable, {SIZE} more were asked for; raise it with ulimit -d"))


def own_limit():
    pattern = (rf"the program's own limit \(option limit, fh_limit_set\) of {SIZE} is met: {SIZE} are in use, and a part is "
               r"kept for the time after this message; raise it, or free something")
    _, limit, used, heap = one_line(run("own", options="limit=64m"), pattern)
    check(limit == 64 << 20 and 0.8 * limit <= used <= limit and heap <= used * 1.01, f"{limit}, {used}, {heap}")
    # Blocks whose slabs are of several slots, and such as lie in a run or a mapping of their own: less is used then.
    for size in 20000, 60000, 100000, 1500000, 3 << 20, 20 << 20:
        one_line(run("own", str(size), options="limit=64m"), pattern)
    one_line(run("own-threads", options="limit=16m"), pattern)
    # A program that sets its limit itself knows of it, unless somebody asks.
    check(run("own-by-call") == "", "the limit of a program that set it itself was reported")
    one_line(run("own-by-call", options="on_oom=report"), pattern)


def mappings():
    limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    if limit > 300000:
        skips.skip_part(f"a program with all of its vm.max_map_count of {limit} mappings: more than 300,000 take too long")
        return
    found = one_line(run("mappings"), r"the number of mappings \(vm.max_map_count\) of (\d+) is met: there are (\d+); raise it "
                     r"with sysctl vm.max_map_count=N, or map less in pieces")
    check(int(found[1]) == limit and limit - 8 <= int(found[2]) <= limit + 4, f"{found}")


def requests_that_cannot_be():
    """Who asks for them probes, or has computed wrongly; only who wants to know is told."""
    for size in (1 << 50, (1 << 63) - 1, (1 << 64) - 4096):
        check(run("ask", str(size)) == "", f"a request of {size} bytes was reported")
        one_line(run("ask", str(size), options="on_oom=report"),
                 r"the request itself is larger than the address space of a process; look for a size")
    if pathlib.Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "0":
        found = one_line(run("ask", str(1 << 46), options="on_oom=report"),
                         rf"a single piece of {SIZE} is more than this machine's memory and swap of {SIZE}; ask for less")
        check(found[1] >= 1 << 46 and found[2] < 1 << 46, f"{found}")
        check(run("ask", str(1 << 46)) == "", "a request larger than the machine was reported")
    else:
        skips.skip_part("vm.overcommit_memory is not 0, so no request is larger than the machine")


def addresses_of_the_heap():
    """No limit of the kernel's is met, so none of them is blamed."""
    if int(re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) < 1 << 20:
        skips.skip_part("a machine with less than 1 GiB refuses blocks of that size")
        return
    found = one_line(run("window"), rf"of the {SIZE} of addresses that a heap can have, no piece so long and so aligned is "
                     r"free; ask for less at once, or use several processes")
    check(found[1] == 1 << 40 and found[2] > found[1] * 0.9, f"{found}")


def silence():
    for reason in ("address", "data"):
        check(run(reason, options="on_oom=silent") == "", f"{reason}: on_oom=silent was not silent")
    check(run("own", options="on_oom=silent,limit=64m") == "", "own: on_oom=silent was not silent")


def files_of_the_program():
    """A program that has closed stderr may have its data under that number. A log is appended to."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    data, log = FOLDER / "data", FOLDER / "log"
    run("data-at-2", str(data))
    check(data.read_text() == "", f"written into the program's data: {data.read_text()}")
    run("log-at-2", str(log))
    met_by(one_line(log.read_text(), ADDRESSES))


def control_group():
    """A container that is nearly full is named beside the limit that was met."""
    box = FOLDER / "box"
    shutil.rmtree(FOLDER, ignore_errors=True)
    box.mkdir(parents=True)
    (FOLDER / "self.cgroup").write_text("0::/box\n")
    (box / "memory.max").write_text("1048576000\n")
    (box / "memory.current").write_text("1040000000\n")
    (box / "memory.stat").write_text("anon 5\nfile 1000000\nkernel 7\nshmem 0\n")
    found = one_line(run("address", group=FOLDER), ADDRESSES + r", or take it away"
                     rf"; the control group \(memory.max\) is near its limit too: {SIZE} of {SIZE}")
    check(found[4] < found[5] == 1000 * 2**20, f"{found}")


def strict_overcommit():
    """A setting of the whole machine, so it is only changed when asked to."""
    path = pathlib.Path("/proc/sys/vm/overcommit_memory")
    if os.environ.get("FREEHOLD_TEST_OVERCOMMIT") != "1":
        skips.skip_part("strict overcommit is a setting of the whole machine; FREEHOLD_TEST_OVERCOMMIT=1 allows it")
        return
    share = path.with_name("overcommit_ratio")
    before, share_before = path.read_text(), share.read_text()
    share.write_text("100")  # so that what else runs here is not refused
    path.write_text("2")
    try:
        memory = dict(re.findall(r"(\w+): +(\d+) kB", pathlib.Path("/proc/meminfo").read_text()))
        free = (int(memory["CommitLimit"]) - int(memory["Committed_AS"])) * 1024
        size = max(free + (1 << 30), 1 << 30)
        said = run("ask", str(size), options="on_oom=report")
    finally:
        path.write_text(before)
        share.write_text(share_before)
    one_line(said, rf"the machine's commit limit \(vm.overcommit_memory=2\) of {SIZE} is met: {SIZE} are promised to all "
             rf"programs, {SIZE} more were asked for; end something else")


limits_of_the_process()
own_limit()
mappings()
requests_that_cannot_be()
addresses_of_the_heap()
silence()
files_of_the_program()
control_group()
strict_overcommit()

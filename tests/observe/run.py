#!/usr/bin/env python3
"""The observer, from outside: run.py TEST LIBRARY ACTS WORK-FOLDER [ARGUMENTS...]

Each test runs programs under LIBRARY with FREEHOLD=observe=1, reads the profile files that they leave
(profile_file.py) and compares them with what the programs say of themselves. `run.py --list` names the tests.
0: good, 1: not, 77: cannot be tested here."""

import errno
import math
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import profile_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

SIGMAS = 5
PATIENCE = 900  # seconds until a program counts as one that hangs; no test measures time
# Not LD_PRELOAD=... of a shell: what reads the pages must not be observed itself.


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def must(true, what):
    if not true:
        raise Failed(what)


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        must(time.monotonic() < end, f"{what} did not come")
        time.sleep(0.01)


class OffBySigmas(Failed):
    """A figure that is further from the truth than chance has it, but for once in two million."""


def must_be_near(true, what):
    if not true:
        raise OffBySigmas(what)


class Bench:
    """A folder for pages, and programs that run observed."""

    def __init__(self, library, acts, work):
        self.library, self.acts = library, acts
        os.makedirs(work, exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=work, prefix="pages-")

    def environment(self, options="", folder=None):
        text = f"observe=1,page={folder or self.folder}" + ("," + options if options else "")
        return dict(os.environ, LD_PRELOAD=self.library, FREEHOLD=text)

    def start(self, arguments, options="", folder=None, **more):
        return subprocess.Popen([self.acts, *map(str, arguments)], env=self.environment(options, folder),
                                stdout=subprocess.PIPE, text=True, **more)

    def run(self, arguments, options=""):
        """Its page, and what it said: {address: (blocks, bytes, live blocks, live bytes)}."""
        program = self.start(arguments, options)
        said, _ = program.communicate(timeout=PATIENCE)
        must(program.returncode == 0, f"{arguments} ended with {program.returncode}")
        truth = {}
        for line in said.splitlines():
            if line.startswith("site "):
                address, *numbers = map(int, line.split()[1:])
                truth[address] = numbers
        return self.page_of(program.pid), truth

    def page_of(self, pid, slack=0):
        found = profile_file.read(os.path.join(self.folder, f"freehold-{pid}"))
        bad = found.check(slack)
        must(not bad, f"page of {pid}: " + "; ".join(bad[:5]))
        return found

    def pages(self):
        return sorted(os.listdir(self.folder))


def per_site(found, addresses):
    """For each address what its stacks have: sums over sites of allocated samples, bytes, blocks, variance; and live."""
    sums = {address: dict(samples=0, bytes=0, blocks=0.0, variance=0.0, live_samples=0, live_bytes=0.0, live_blocks=0.0,
                          live_bytes_variance=0.0, live_blocks_variance=0.0) for address in addresses}
    owner = {}
    for site in found.sites():
        for address in found.stack(site["node"])[0]:
            if address in sums:
                owner[site["number"]] = address
                s = sums[address]
                s["samples"] += site["allocated_samples"]
                s["bytes"] += site["allocated_bytes"]
                s["blocks"] += site["allocated_blocks"] / 256
                s["variance"] += site["allocated_variance"] * 65536.0
    for sample in found.samples():
        if sample["site"] in owner:
            s = sums[owner[sample["site"]]]
            size, blocks, variance = profile_file.weight(sample["size"], sample["drawn"], sample["interval"])
            s["live_samples"] += 1
            s["live_bytes"] += size
            s["live_blocks"] += blocks
            s["live_bytes_variance"] += variance
            s["live_blocks_variance"] += variance / sample["size"] ** 2
    return sums


def trial(bench, name, count, options, later=()):
    """One comparison; there are some hundreds of figures in each of six builds, and with as few as fifty samples the tails are
    heavier than the normal ones. So what is off by chance has a second trial, in which what is wrong is off again."""
    for last in (False, True):
        found, truth = bench.run([name, count, *later], options)
        try:
            return compare(name, found, truth)
        except OffBySigmas as why:
            if last:
                raise
            print(f"  once more: {why}")


def compare(name, found, truth):
    """Absolute bytes, live bytes and shares of each site within 5 sigma of the truth."""
    must(found.control["lost_samples"] == 0, f"{name}: {found.control['lost_samples']} samples lost")
    sums = per_site(found, truth)
    all_true, all_found = sum(t[1] for t in truth.values()), sum(s["bytes"] for s in sums.values())
    all_variance = sum(s["variance"] for s in sums.values())
    for address, (blocks, size, live_blocks, live) in truth.items():
        s = sums[address]
        must(s["samples"] > 50, f"{name}: only {s['samples']} samples of a site, which prove nothing")
        sigma = math.sqrt(s["variance"]) or 1
        off = (s["bytes"] - size) / sigma
        # The sizes of a site are alike but in `entries`; blocks are then as certain as bytes.
        off_blocks = (s["blocks"] - blocks) / (sigma / size * blocks)
        share, true_share = s["bytes"] / all_found, size / all_true
        rest = max(all_variance - s["variance"], 0)
        share_sigma = math.sqrt((1 - share) ** 2 * s["variance"] + share**2 * rest) / all_found or 1
        off_share = (share - true_share) / share_sigma
        live_sigma = math.sqrt(s["live_bytes_variance"] + 1)
        off_live = (s["live_bytes"] - live) / max(live_sigma, 1)
        print(f"  {name:12} {s['samples']:7} samples: bytes {s['bytes']:12} of {size:12} ({off:+.1f} sigma), "
              f"share {100 * share:5.2f} of {100 * true_share:5.2f} % ({off_share:+.1f}), "
              f"live {s['live_bytes']:.0f} of {live} ({off_live:+.1f})")
        must_be_near(abs(off) <= SIGMAS, f"{name}: {s['bytes']} bytes of {size}: {off:+.1f} sigma")
        must_be_near(abs(off_share) <= SIGMAS, f"{name}: a share of {share:.4f}, not {true_share:.4f}: {off_share:+.1f} sigma")
        must_be_near(name == "entries" or abs(off_blocks) <= SIGMAS, f"{name}: {s['blocks']:.0f} blocks of {blocks}")
        # With few live samples the error is not normal, and not known from the samples themselves.
        must_be_near(live < 20000 * 50 or abs(off_live) <= SIGMAS, f"{name}: {s['live_bytes']:.0f} live bytes of {live}")
        must(live > 0 or s["live_bytes"] == 0, f"{name}: samples of freed blocks are left")


def test_unbiased(bench):
    """Shares and absolute bytes, in a fixed number of trials with a fixed tolerance."""
    trials = [("rotation", 1000000), ("sizes", 30000), ("at_once", 400000), ("threads", 1000000)]
    for interval in ("2k", "20000"):
        for name, count in trials:
            trial(bench, name, count, f"sample={interval}")
    trial(bench, "first_blocks", 4000, "sample=2k")


def test_later(bench):
    """Not sampled from the beginning: then a thread is told from others by its bins alone, and both halves are slow."""
    for name, count in (("rotation", 1000000), ("sizes", 30000), ("at_once", 400000), ("threads", 1000000)):
        trial(bench, name, count, "sample=0", later=["2k"])
    for name, count in (("entries", 20000), ("impossible", 400000)):
        trial(bench, name, count, "sample=0", later=["4k"])


def test_entries(bench):
    """The same for each way in: malloc, calloc, aligned_alloc, realloc; small, large and huge."""
    for interval in ("2k", "100000"):
        trial(bench, "entries", 20000, f"sample={interval}")


def test_resized(bench):
    """realloc within classes and across them, vectors, strings, a site that uses all that it has got; and large blocks. What
    a block was when it was sampled must not decide what becomes of it."""
    for name, count, intervals in (("resized", 3000, ("2k", "8k")), ("resized_large", 120, ("20k", "80k"))):
        for interval in intervals:
            compare_live(bench, name, count, f"sample={interval}")


def compare_live(bench, name, count, options):
    """Bytes and blocks that live, of each site, within 5 sigma of the truth."""
    for last in (False, True):
        found, truth = bench.run([name, count], options)
        must(found.control["lost_samples"] == 0, f"{name}: {found.control['lost_samples']} samples lost")
        try:
            live_is_true(name, per_site(found, truth), truth)
            return
        except OffBySigmas as why:
            if last:
                raise
            print(f"  once more: {why}")


def live_is_true(name, sums, truth):
    must(len(truth) == 4, f"{name}: {len(truth)} sites")
    for address, (_, _, live_blocks, live) in truth.items():
        s = sums[address]
        off = [(s[f"live_{what}"] - true) / math.sqrt(s[f"live_{what}_variance"] or 1)
               for what, true in (("bytes", live), ("blocks", live_blocks))]
        print(f"  {name:13} {s['live_samples']:6} samples: live {s['live_bytes']:.0f} of {live} bytes ({off[0]:+.1f} sigma), "
              f"{s['live_blocks']:.0f} of {live_blocks} blocks ({off[1]:+.1f})")
        must(s["live_samples"] > 50, f"{name}: only {s['live_samples']} samples of a site, which prove nothing")
        must_be_near(max(map(abs, off)) <= SIGMAS, f"{name}: {s['live_bytes']:.0f} live bytes of {live}, "
                                                   f"{s['live_blocks']:.0f} blocks of {live_blocks}")


def test_answers(bench):
    """What the program is told of its blocks is the same with and without the observer, whatever is sampled."""
    plain = subprocess.run([bench.acts, "answers", "3000000"], env=dict(bench.environment(), FREEHOLD=""),
                           capture_output=True, text=True, timeout=PATIENCE)
    must(plain.returncode == 0 and plain.stdout.count("\n") > 900, f"ended with {plain.returncode}: {plain.stderr}")
    for interval in ("1", "4k"):
        program = bench.start(["answers", 3000000], f"sample={interval}")
        said, _ = program.communicate(timeout=PATIENCE)
        must(program.returncode == 0, f"ended with {program.returncode}")
        must(bench.page_of(program.pid).control["taken"] > 900, "nothing was sampled")
        pairs = list(zip(plain.stdout.splitlines(), said.splitlines(), strict=True))
        other = [(a, b) for a, b in pairs if a != b]
        must(not other, f"sample={interval}: {len(other)} of {len(pairs)} lines differ, the first: {other[:1]}")


def test_impossible(bench):
    """Requests that cannot be met do not disturb the counting."""
    trial(bench, "impossible", 400000, "sample=4k")


def test_children(bench):
    """Forks of each kind: the parent's page is its own, each child that had something to say made one."""
    found, truth = bench.run(["children", 20], "sample=1k")
    ours = next(iter(truth.values()))
    sums = per_site(found, truth)
    must(sum(s["live_bytes"] for s in sums.values()) == 0, "blocks of the parent are left")
    must(ours[0] == 1000, "the act changed")
    children = 0
    for name in bench.pages():
        child = profile_file.read(os.path.join(bench.folder, name))
        if child.pid == found.pid:
            continue
        children += 1
        bad = child.check()
        must(not bad, f"{name}: " + "; ".join(bad[:3]))
        must(child.inherited == 1 and child.parent_pid == found.pid, f"{name}: inherited {child.inherited}")
        must(child.control["unknown_frees"] > 0, f"{name}: blocks of the parent were freed, and none was unknown")
    must(children == 40, f"{children} pages of 40 children")
    must(found.inherited == 0, "the parent says that it inherited")


def test_exec(bench):
    """exec under the same process number: one page, of the last program."""
    found, truth = bench.run(["again", 5], "sample=1k")
    must(bench.pages() == [f"freehold-{found.pid}"], f"pages {bench.pages()}")
    must(found.inherited == 0, "a program after exec has inherited nothing")
    compare_live = per_site(found, truth)
    must(sum(s["samples"] for s in compare_live.values()) > 0, "no samples after exec")


def test_killed(bench):
    """kill -9 in the middle of it: the page can be read, and contradicts itself in nothing."""
    for trial in range(12):
        program = bench.start(["forever"], "sample=" + random.choice(["1", "512", "16k"]))
        must(program.stdout.readline() == "running\n", "the act does not run")
        # On a busy machine it may not have come to anything in any given time.
        path = os.path.join(bench.folder, f"freehold-{program.pid}")
        wait_for(lambda: profile_file.read(path).control["taken"] >= 100, "samples")
        time.sleep(random.random() * 0.3)
        program.kill()
        program.wait()
        found = bench.page_of(program.pid, slack=8)
        must(found.state == 1, f"state {found.state} of a program that was killed")
        must(found.control["taken"] > 0, "nothing was sampled")
        must(any(True for _ in found.samples()), "no samples are left")
        # Without the few samples that were in the middle of something, the sums of each site are those of its samples.
        live = {}
        for s in found.samples():
            live[s["site"]] = live.get(s["site"], 0) + 1
        off = sum(abs(s["allocated_samples"] - s["freed_samples"] - live.get(s["number"], 0)) for s in found.sites())
        must(off <= 8, f"{off} samples are neither live nor freed")


def poke(path, field, value):
    with open(path, "r+b") as file:
        file.seek(4096 + 8 * profile_file.CONTROL.index(field))
        file.write(struct.pack("<Q", value))


def test_control(bench):
    """Switched off and on while it runs, another interval, a mark, figures on demand."""
    program = bench.start(["steps", 20000], "sample=4k", stdin=subprocess.PIPE)
    path = os.path.join(bench.folder, f"freehold-{program.pid}")

    def step():
        must(program.stdout.readline().startswith("step"), "the act does not run")
        return profile_file.read(path)

    def go():
        program.stdin.write("\n")
        program.stdin.flush()
        return step()

    first = step()
    must(first.control["interval"] == 4096 and first.control["taken"] > 1000, f"{first.control}")
    poke(path, "wanted_interval", 0)
    off = go()  # the change is seen at a slow path, of which a round has some
    still = go()
    must(still.control["interval"] == 0, f"interval {still.control['interval']} after it was switched off")
    must(still.control["taken"] == off.control["taken"] or off.control["interval"] != 0, "samples while switched off")
    poke(path, "wanted_interval", 2048)
    poke(path, "mark", 7)
    for _ in range(5):
        on = go()
    must(on.control["interval"] == 2048, f"interval {on.control['interval']} of 2048")
    must(on.control["taken"] > still.control["taken"] + 1000, "no samples after it was switched on again")
    poke(path, "refresh", 1)
    for _ in range(5):
        asked = go()
    must(asked.control["refreshed"] == 1, "figures were asked for, and not given")
    must(asked.figures()["sequence"] % 2 == 0 and asked.figures()["sequence"] > 0, "figures half written")
    program.stdin.close()
    program.wait(timeout=PATIENCE)
    last = bench.page_of(program.pid)
    must(last.state == 2, f"state {last.state} at the end")
    must(len(list(last.moments())) > 1, "no timeline")


def memfd_page(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:freehold-profile"):
                return f"/proc/{pid}/fd/{fd}"
        except OSError:
            pass
    return None


def run_in(bench, folder, expect_error):
    """The program runs all the same, with its page in memory; said what is wrong with the folder."""
    program = bench.start(["steps", 2000], "sample=1k", folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    must(program.stdout.readline() == "step 2000\n", f"{folder}: the program did not run")
    path = memfd_page(program.pid)
    must(path, f"{folder}: no page in memory")
    found = profile_file.read(path)
    must(found.control["taken"] > 100, f"{folder}: nothing sampled")
    _, errors = program.communicate("")
    must(program.returncode == 0, f"{folder}: ended with {program.returncode}")
    must(errors.count("\n") == 1 and folder in errors and expect_error in errors, f"{folder}: said {errors!r}")


def test_folders(bench):
    """A folder that is missing, read-only, full, or too small for what comes later."""
    run_in(bench, "/nowhere/at/all", "no such directory")
    if os.geteuid() != 0:
        return skips.skip_part("only root can mount the small and the read-only file systems")
    small = os.path.join(bench.folder, "small")
    os.mkdir(small)

    def mounted(options, act):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", small], capture_output=True).returncode != 0:
            return skips.skip_part(f"a file system of {options} may not be mounted here")
        try:
            act()
        finally:
            subprocess.run(["umount", "-l", small], check=True)

    mounted("size=16k", lambda: run_in(bench, small, "no room left"))
    mounted("size=1m,ro", lambda: run_in(bench, small, "read-only"))

    def grows_too_much():
        program = bench.start(["at_once", 100000], "sample=512", small)
        program.communicate(timeout=PATIENCE)
        must(program.returncode == 0, f"a page that cannot grow: the program ended with {program.returncode}")
        found = profile_file.read(os.path.join(small, f"freehold-{program.pid}"))
        bad = found.check()
        must(not bad, "; ".join(bad[:3]))
        must(found.section["samples"][3] > 0, "nothing was dropped")
        must(found.control["lost_samples"] == found.section["samples"][3], "dropped and lost differ")

    mounted("size=512k", grows_too_much)


def test_offered(bench):
    """Files in memory that somebody else holds: each program takes one, also after exec, and what it wrote outlives it.
    When all are taken, the page is the program's own again; nothing that is not such a file is ever written to."""
    made = [os.memfd_create("freehold-profile") for _ in range(3)]
    held = [200 + n for n in range(3)]
    for descriptor, number in zip(made, held):
        os.dup2(descriptor, number, inheritable=False)
    offered = [f"/proc/{os.getpid()}/fd/{number}" for number in held]

    def ends(arguments):
        program = bench.start(arguments, "sample=1k", offered[0], stderr=subprocess.PIPE)
        _, errors = program.communicate("", timeout=PATIENCE)
        must(program.returncode == 0, f"ended with {program.returncode}: {errors}")
        return program.pid, errors

    first, errors = ends(["rotation", 20000])
    must(not errors, f"said {errors!r}")
    second, errors = ends(["again", 5])
    must(not errors, f"said {errors!r}")
    for path, pid in zip(offered, (first, second)):
        found = profile_file.read(path)
        bad = found.check()
        must(not bad, f"{path}: " + "; ".join(bad[:5]))
        must(found.pid == pid and found.state == 2, f"{path} is of {found.pid} in state {found.state}, not of {pid}")
        must(found.control["taken"] > 0, f"{path}: nothing was sampled")
    ends(["rotation", 20000])
    _, errors = ends(["rotation", 20000])
    must("it is in memory, until the program ends" in errors, f"a fourth program of three files said {errors!r}")
    for descriptor in made + held:
        os.close(descriptor)
    other = os.path.join(bench.folder, "letter")
    with open(other, "wb") as file:
        file.write(bytes(1 << 20))
    with open(other, "rb+") as file:
        for place in (other, f"/proc/{os.getpid()}/fd/{file.fileno()}"):
            program = bench.start(["rotation", 20000], "sample=1k", place, stderr=subprocess.PIPE)
            program.communicate("", timeout=PATIENCE)
            must(program.returncode == 0, f"{place}: ended with {program.returncode}")
    with open(other, "rb") as file:
        must(not any(file.read()), "a file of the user's was written to")


def test_filtered(bench, filtered):
    """fallocate forbidden by a filter of system calls, as some containers have it; and interrupted by a signal each time."""
    for error in (errno.EPERM, errno.EINTR):
        program = subprocess.run([filtered, str(error), bench.acts, "rotation", "20000"], capture_output=True, text=True,
                                 env=bench.environment("sample=1k"), timeout=PATIENCE)
        if program.returncode == 77:
            raise Skipped("no filter can be set here")
        must(program.returncode == 0, f"ended with {program.returncode}: {program.stderr}")
        names = bench.pages()
        must(len(names) == 1, f"pages {names}, said {program.stderr!r}")
        found = bench.page_of(int(names[0].split("-")[1]))
        must(found.control["taken"] > 1000 and found.control["lost_samples"] == 0, f"{found.control}")
        os.remove(os.path.join(bench.folder, names[0]))


def test_sandboxed(bench, sandboxed):
    """A program that sandboxes itself while it is observed lives. Its samples there have no stacks beyond what the walk
    reads without the kernel, its children are not observed, and its file has the size that it had."""
    program = subprocess.run([sandboxed, "trap", "by-itself"], capture_output=True, text=True,
                             env=bench.environment("sample=4k"), timeout=PATIENCE)
    if program.returncode == 77:
        raise Skipped("no filter can be set here")
    must(program.returncode == 0, f"ended with {program.returncode}: {program.stderr}")
    must("the program is not observed" in program.stderr, f"the children said {program.stderr!r}")
    names = bench.pages()
    must(len(names) == 1, f"pages {names}")
    found = bench.page_of(int(names[0].split("-")[1]))
    must(found.control["taken"] > 1000, f"sampling ended in the sandbox: {found.control}")
    must(found.control["short_stacks"] > 0 or found.control["lost_samples"] > 0, f"nothing is lost: {found.control}")
    os.remove(os.path.join(bench.folder, names[0]))


def test_limited(bench):
    """A limit on the size of files: the system ends whoever goes beyond it by a signal, so the page may not."""
    def limited(kibibytes):
        limit = kibibytes * 1024
        program = bench.start(["at_once", 100000], "sample=512", stderr=subprocess.PIPE,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        _, said = program.communicate(timeout=PATIENCE)
        must(program.returncode == 0, f"limit {kibibytes} KiB: ended with {program.returncode}: {said}")
        return program.pid, said

    _, said = limited(16)
    must("not observed" in said and "file size" in said, f"no page at all: said {said!r}")
    must(not bench.pages(), f"pages {bench.pages()}")
    pid, said = limited(512)
    found = bench.page_of(pid)
    must(said == "" and found.section["samples"][3] > 0, f"nothing was dropped; said {said!r}")


def test_default_folder(bench):
    """Without page=DIR: /dev/shm, readable by nobody else, and gone afterwards."""
    environment = dict(bench.environment(), FREEHOLD="observe=1,sample=1k")
    program = subprocess.Popen([bench.acts, "steps", "2000"], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    path = f"/dev/shm/freehold-{program.pid}"
    if not os.path.isdir("/dev/shm") or not os.access("/dev/shm", os.W_OK):
        must(memfd_page(program.pid), "no page in memory")
    else:
        must(os.path.exists(path), f"no {path}")
        must(os.stat(path).st_mode & 0o777 == 0o600, f"mode {os.stat(path).st_mode:o}")
    program.communicate("")
    must(program.returncode == 0 and not os.path.exists(path), "the page is still there")


def test_closed(bench):
    """A program that closes all descriptors, as daemons do: the page goes on to grow."""
    code = "import os; os.closerange(3, 4096); x = [bytearray(3000) for i in range(20000)]; print(len(x))"
    program = subprocess.run([sys.executable, "-c", code], env=bench.environment("sample=1k"), capture_output=True,
                             text=True, timeout=PATIENCE)
    must(program.returncode == 0, f"ended with {program.returncode}: {program.stderr}")
    found = profile_file.read(os.path.join(bench.folder, bench.pages()[0]))
    must(not found.check(), "; ".join(found.check()[:3]))
    must(found.section["samples"][3] == 0 and found.capacity("samples") > 1000, "the page did not grow")


def test_program(bench, options, *command):
    """A script that preloads the library itself."""
    environment = bench.environment(options)
    del environment["LD_PRELOAD"]
    check_command(bench, command, environment)


def test_command(bench, options, *command):
    """Any program, observed."""
    check_command(bench, command, bench.environment(options))


def check_command(bench, command, environment):
    """It ends as it should, and every page that it and its children leave is consistent."""
    program = subprocess.run(command, env=environment, timeout=2 * PATIENCE)
    if program.returncode == 77:
        raise SystemExit(skips.STATUS)  # the program has said why
    must(program.returncode == 0, f"{command} ended with {program.returncode}")
    names = bench.pages()
    must(names, "no page")
    for name in names:
        found = profile_file.read(os.path.join(bench.folder, name))
        # A program may end while its threads are in the middle of something.
        bad = found.check(slack=64)
        must(not bad, f"{name} ({found.program}): " + "; ".join(bad[:3]))
    print(f"{len(names)} pages")


def main():
    tests = {name[5:]: test for name, test in globals().items() if name.startswith("test_")}
    if sys.argv[1:] == ["--list"]:
        print("\n".join(tests))
        return 0
    name, library, acts, work, *more = sys.argv[1:]
    bench = Bench(library, acts, work)
    try:
        tests[name](bench, *more)
    except Skipped as why:
        skips.skip(why)
    except (Failed, profile_file.BadPage) as why:
        print(f"FAILED: {name}: {why}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
    return 0


sys.exit(main())

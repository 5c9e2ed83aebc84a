#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does each form of the program heaps have as many blocks as it was asked for, and the same ones under each allocator?

    bench/heaps/check_heaps.py HEAPS LIBFREEHOLD.so COUNTER.so FOLDER-OF-PEERS

Runs all forms in a tiny version: under the system's allocator, under the library, and under the peers that are built. What a
place says of its blocks by its own account is compared, and the calls of the form without a place are counted."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "support"))
import skips  # noqa: E402

ROUNDS = 3
BLOCKS = (1, 10, 1000, 30000)
HEAPS = ("heap", "heap scope=1", "heap quota=1", "heap quota=1 scope=1")
OURS = ("private", "frame")
PLACES = ("apr", "monotonic", "single")
# Forms whose place has an account of its blocks.
COUNTED = (*HEAPS, "private")
FIGURES = ("ops", "ns_per_op", "begin_ns", "fill_ns", "end_ns", "blocks")
# What the heaps of a peer can do. In mimalloc 3.3 plain malloc cannot be led to one.
PEERS = {
    "mimalloc34": ("heap", "heap scope=1"),
    "mimalloc3": ("heap",),
    "mimalloc2": ("heap", "heap scope=1"),
    "jemalloc": ("heap", "heap scope=1"),
    "tcmalloc": (),
}


def run(program, form, blocks, library="", **environment):
    """The figures that one run prints, or None when the allocator has no such place."""
    words = [f"form={form.split()[0]}", *form.split()[1:], f"blocks={blocks}", f"rounds={ROUNDS}"]
    done = subprocess.run([program, *words], env={**os.environ, "LD_PRELOAD": library, **environment}, capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.endswith("ok\n"):
        raise SystemExit(f"{library} {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    figures = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if "absent" in figures:
        return None
    missing = [key for key in (*FIGURES, "check") if key not in figures]
    if missing:
        raise SystemExit(f"{library} {' '.join(words)}: prints no {missing[0]}")
    return {key: value if key == "check" else float(value) for key, value in figures.items()}


def faults(form, blocks, figures, check):
    """What is wrong with the figures of a run."""
    if figures["blocks"] != blocks or figures["ops"] != ROUNDS:
        yield f"{figures['blocks']:.0f} blocks in {figures['ops']:.0f} rounds"
    if form in COUNTED and figures.get("counted") != blocks:
        yield f"its account has {figures.get('counted')} blocks"
    if figures["check"] != check:
        yield f"checksum {figures['check']} instead of {check}"
    if min(figures[key] for key in FIGURES) < 0:
        yield "a negative time"


def check_calls(program, counter):
    """Without a place each block is one call of malloc and one of free: the checked round, and two timed passes."""
    calls = []
    for blocks in (10, 1010):
        with tempfile.NamedTemporaryFile() as file:
            run(program, "single", blocks, counter, BENCH_COUNTS=file.name)
            mallocs, _, _, frees = (int(word) for word in file.read().split())
            calls.append((mallocs, frees))
    expected = 1000 * (2 * ROUNDS + 1)
    for call, few, many in zip(("malloc", "free"), *calls):
        if many - few != expected:
            yield f"single: 1,000 blocks more are {many - few} calls of {call} more, not {expected}"


def main():
    program, ours, counter, peers = sys.argv[1:5]
    allocators = {"the system": ("", ()), "freehold": (ours, (*HEAPS, *OURS))}
    for name, heaps in PEERS.items():
        library = os.path.join(peers, f"{name}.so")
        if os.path.exists(library):
            allocators[name] = (library, heaps)
    if len(allocators) == 2:
        skips.skip_part("no peers are built: freehold bench peers")
    has_apr = run(program, "apr", 1) is not None
    if not has_apr:
        skips.skip_part("no libapr-1.so.0")
    bad, runs = list(check_calls(program, counter)), 0
    for blocks in BLOCKS:
        check = run(program, "single", blocks)["check"]
        for name, (library, heaps) in allocators.items():
            for form in (*HEAPS, *OURS, *PLACES):
                figures = run(program, form, blocks, library)
                there = form in heaps or (form in PLACES and (form != "apr" or has_apr))
                runs += 1
                if (figures is not None) != there:
                    bad.append(f"{name} {form}: {'is' if figures else 'is not'} there")
                elif figures is not None:
                    bad += [f"{name} {form} blocks={blocks}: {fault}" for fault in faults(form, blocks, figures, check)]
    for line in bad:
        print(line)
    print(f"{runs} runs compared")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

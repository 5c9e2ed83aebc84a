#!/usr/bin/env python3
"""Misses for each malloc or free of any allocator, by simulation:  recorded.py PROGRAM THREADS TURNS LIBRARY|-

PROGRAM is proof-recorded, LIBRARY is preloaded (-: the C library's own). valgrind's lackey records every load and store; what
lies between a thread's mark and the next mark of nobody is that thread's, and goes through the same model of the caches
as in scaling.c: a line is one thread's to write, or several threads' to read. Counted is the second half of the turns.

scaling.c sees atomic operations only; this sees all memory, the headers that other allocators keep beside their blocks and
the thread's own data included. Below valgrind there is no number of the processor, so an allocator that goes by it goes
by its second choice."""
import os
import subprocess
import sys


class Caches:
    """Who has each line: the set of its readers as bits, or who alone may write it."""

    def __init__(self):
        self.lines = {}

    def touch(self, address, who, writes):
        """True if the line has to be fetched from another processor."""
        me = 1 << who
        readers, owner = self.lines.get(address >> 6, (0, -1))
        has = owner == who or readers == me if writes else readers & me
        self.lines[address >> 6] = (me, who) if writes else (readers | me, -1)
        return not has and readers & ~me != 0


def count_misses(record, threads, turns):
    caches, mark, who, calls, misses = Caches(), None, None, 0, 0
    warm = threads * turns // 2
    for line in record:
        if line.startswith("MARK"):
            mark = int(line.split()[1], 16)
        # " L address,size", S and M likewise; "I  address,size" are instructions.
        if mark is None or line[0] != " " or line[1] not in "LSM":
            continue
        address = int(line[3:line.index(",")], 16)
        if line[1] == "S" and mark <= address <= mark + 64:
            who = address - mark if address < mark + 64 else None
            calls += who is not None
        elif who is not None and caches.touch(address, who, line[1] != "L") and calls > warm:
            misses += 1
    if calls != threads * turns:
        sys.exit(f"{calls} turns are in the record and not {threads * turns}: did the program or valgrind fail?")
    return misses / (2 * (calls - warm))


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    program, threads, turns, library = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    environment = dict(os.environ)
    if library != "-":
        environment["LD_PRELOAD"] = os.path.abspath(library)
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--fair-sched=yes",
               program, str(threads), str(turns)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace") as run:
        print(f"{threads} threads: {count_misses(run.stderr, threads, turns):.4f}")


main()

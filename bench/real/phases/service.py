"""A Python service over phases: service.py HOW SIZE... It keeps a table of records by number. In each phase it drops nine in
ten of the records of the phase before, at random, and makes new ones of another size, until they hold PHASES_MIB.

HOW is one of
  bytes    a record is one bytes object of exactly that size
  spread   a bytes object, its size log-normal around that size
  records  a dict with a name, a list of numbers, a dict of words and a body, together about that size
"""
import math
import os
import random
import sys

MIB = 1 << 20
PHASE_BYTES = int(os.environ.get("PHASES_MIB", "64")) * MIB
SURVIVE = float(os.environ.get("PHASES_SURVIVE", "0.1"))
SIGMA = 0.5
OVERHEAD = 33  # bytes that a bytes object takes beside its contents


def spread(dice, size):
    return max(1, int(size * math.exp(dice.gauss(-SIGMA**2 / 2, SIGMA))))


def record(how, dice, number, size):
    """A record and the bytes that it takes, about."""
    if how == "bytes":
        return bytes(size), size + OVERHEAD
    size = spread(dice, size)
    if how == "spread":
        return bytes(size), size + OVERHEAD
    words = {f"word{i}": f"{number}-{'x' * (size // 8)}" for i in range(4)}
    made = {"name": f"record {number}", "numbers": list(range(number, number + size // 32)), "words": words, "body": bytes(size // 4)}
    return made, 700 + size + size // 2


def main():
    how, sizes = sys.argv[1], [int(s) for s in sys.argv[2:]]
    dice, table, number, latest = random.Random(1), {}, 0, []
    for size in sizes:
        dice.shuffle(latest)
        for key in latest[int(len(latest) * SURVIVE):]:
            del table[key]
        latest, left = [], PHASE_BYTES
        while left > 0:
            table[number], took = record(how, dice, number, size)
            latest.append(number)
            number += 1
            left -= took
        print("phase", flush=True)
        sys.stdin.readline()


main()

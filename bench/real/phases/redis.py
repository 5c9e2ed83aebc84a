"""Redis over phases: redis.py HOW SIZE... A server under the library in PHASES_LIBRARY, and this client without.

HOW is one of
  fixed    values of exactly one size a phase; nine in ten of the phase before are deleted at random, then the new ones are set
  spread   the same, and the sizes of a phase lie around that size (log-normal, sigma 0.5)
  rolling  as spread, but each new value goes along with the deletion of an old one
  cache    a cache that is full: maxmemory with allkeys-lru, sizes as in spread, and one old key in ten is read now and then
"""
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
PHASE_BYTES = int(os.environ.get("PHASES_MIB", "64")) * MIB
OVERHEAD = 100  # bytes that a key and its entry take beside the value, about
BATCH = 1000
SIGMA = 0.5
SURVIVE = float(os.environ.get("PHASES_SURVIVE", "0.1"))


class Client:
    """Commands in batches; answers are only counted."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.out, self.answers, self.file = [], 0, self.socket.makefile("rb")

    def send(self, *words):
        self.out.append(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words))
        if len(self.out) == BATCH:
            self.flush()

    def flush(self):
        self.socket.sendall(b"".join(self.out))
        for _ in self.out:
            self.answer()
        self.out.clear()

    def answer(self):
        line = self.file.readline()
        if line[:1] == b"-" or not line:
            raise SystemExit(f"redis: {line!r}")
        if line[:1] == b"$" and line[1:3] != b"-1":
            self.file.read(int(line[1:]) + 2)


def phase_end():
    print("phase", flush=True)
    sys.stdin.readline()


def one_phase(client, how, dice, number, size, before):
    """Sets the values of one phase; returns the keys of it that are alive."""
    filler = os.urandom(64 * 1024)
    old = before[:]
    dice.shuffle(old)
    gone, kept = old[int(len(old) * SURVIVE):], old[:int(len(old) * SURVIVE)]
    if how in ("fixed", "spread"):
        for key in gone:
            client.send(b"DEL", key)
    keys, left = [], PHASE_BYTES
    while left > 0:
        n = size if how == "fixed" else max(1, min(len(filler), int(size * math.exp(dice.gauss(-SIGMA**2 / 2, SIGMA)))))
        key = b"k:%d:%d" % (number, len(keys))
        client.send(b"SET", key, filler[:n])
        keys.append(key)
        left -= n + OVERHEAD
        if how == "rolling" and gone:
            for _ in range(1 + len(gone) * (n + OVERHEAD) // max(left, 1)):
                if gone:
                    client.send(b"DEL", gone.pop())
        if how == "cache" and kept and len(keys) % 4 == 0:
            client.send(b"GET", dice.choice(kept))
    for key in gone if how == "rolling" else ():
        client.send(b"DEL", key)
    client.flush()
    return keys + (kept if how == "cache" else [])


def main():
    how, sizes = sys.argv[1], [int(s) for s in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        options = ["--maxmemory", str(2 * PHASE_BYTES), "--maxmemory-policy", "allkeys-lru"] if how == "cache" else []
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                                   "--activedefrag", "no", "--dir", folder, *options], stdout=subprocess.DEVNULL,
                                  env=dict(os.environ, LD_PRELOAD=os.environ["PHASES_LIBRARY"]))
        try:
            while not os.path.exists(path):
                if server.poll() is not None:
                    raise SystemExit("the server has ended")
                time.sleep(0.02)
            print("pid", server.pid, flush=True)
            client, dice, keys = Client(path), random.Random(1), []
            for number, size in enumerate(sizes):
                keys = one_phase(client, how, dice, number, size, keys)
                phase_end()
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


main()

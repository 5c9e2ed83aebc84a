"""What a server of language models does with memory, without a model: a load like it, and no more.

Weights are read in shards, converted tensor by tensor, and kept at half their size; a tokenizer's tables are made; then
requests come, each with a context that grows block by block. As such servers do, it calls malloc_trim after loading and
between requests. Each line of input is a step, answered by a line.
"""

import ctypes
import gc
import random
import sys

SIZE = int(sys.argv[1])  # percent
libc = ctypes.CDLL(None)
numbers = random.Random(16)
weights, tokens, merges = [], {}, {}


def trim():
    gc.collect()
    libc.malloc_trim(0)


def load():
    for _ in range(4):
        shard = bytearray(b"\x01" * (512 * 1024 * SIZE))
        begin = 0
        while begin < len(shard):
            end = begin + numbers.choice((64, 256, 1024, 2048)) * 1024
            weights.append(bytes(shard[begin:end])[::2])
            begin = end
        del shard
    for number in range(1500 * SIZE):
        word = f"token-{number * 7919 % 1000003}"
        tokens[word] = number
        merges[(word[:3], number)] = word
    trim()


def serve():
    running = []
    for number in range(40 * SIZE):
        running.append([])
        for context in running:
            for _ in range(numbers.randrange(1, 9)):
                context.append(bytearray(64 * 1024))
        if len(running) > 12:
            running.pop(numbers.randrange(len(running)))
        text = [f"token-{numbers.randrange(1000003)}" for _ in range(200)]
        [tokens.get(word, 0) for word in text]
        if number % 100 == 99:
            trim()


def unload():
    weights.clear()
    tokens.clear()
    merges.clear()
    trim()


steps = {"load": load, "serve": serve, "unload": unload}
print("ready", flush=True)
for line in sys.stdin:
    steps[line.strip()]()
    print("done", flush=True)

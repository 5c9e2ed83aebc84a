"""Builds a large tree of dicts and lists, sends it through JSON and regular expressions, and prints a checksum.

The argument is the number of rounds. The hash seed does not matter: what is printed depends on contents only.
"""
import json
import re
import sys
import zlib


def branch(depth, number):
    """A node with four children, an amount of text that varies, and numbers that JSON has to spell out."""
    node = {"name": f"node-{depth}-{number}", "values": [number * i % 997 / 7 for i in range(number % 9)]}
    if depth:
        node["children"] = [branch(depth - 1, number * 4 + i) for i in range(4)]
    return node


def one_round(seed):
    tree = branch(7, seed)
    text = json.dumps(tree)
    again = json.loads(text)
    names = re.findall(r'"name": "node-(\d)-(\d+)"', text)
    by_depth = {}
    for depth, number in names:
        by_depth.setdefault(depth, []).append(int(number))
    words = re.sub(r"[^a-z0-9 ]+", " ", text).split()
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    top = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:100]
    return zlib.crc32(repr((sorted((k, sum(v)) for k, v in by_depth.items()), top, again == tree)).encode())


for current in range(int(sys.argv[1])):
    print(f"{one_round(current + 1):08x}")

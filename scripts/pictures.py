#!/usr/bin/env python3
"""Draws the pictures of README.md: pictures.py [BUILD]   writes docs/pictures/top.svg and flame.svg

Both are what the command prints about a program that runs now: `freehold top --batch` of a program with three planted leaks,
and `freehold profile --peak --collapsed` of a Python program whose objects come from malloc. Of the latter the first rows
are drawn. `make pictures` builds first."""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
COMMAND = BUILD / "freehold"
OUT = ROOT / "docs/pictures"
FONT = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"'


def svg(name, width, height, parts):
    text = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            + "\n".join(parts) + "\n</svg>\n")
    (OUT / name).write_text(text, encoding="utf-8")
    print(f"{OUT / name}: {len(text)} bytes")


# ── top ──────────────────────────────────────────────────────────────────────────────────────────────────────

CELL, LINE = 8.4, 19
# What is coloured: leaks, the small diagrams, the names of figures.
COLOURS = [(re.compile(r"(LEAK\?.*)"), "#ff8f85"), (re.compile(r"([▁▂▃▄▅▆▇█]{2,})"), "#4bc48f"),
           (re.compile(r"\b(running|RSS|live|free|cached|dirty|allocated|freed|threads|statistics|sites by)\b"), "#8b98a5")]


def coloured(line):
    """The line's characters with their colours, as runs: (column, text, colour)."""
    colours = ["#e6edf3"] * len(line)
    for pattern, colour in reversed(COLOURS):
        for found in pattern.finditer(line):
            colours[found.start(1):found.end(1)] = [colour] * (found.end(1) - found.start(1))
    begin = 0
    for column in range(1, len(line) + 1):
        if column == len(line) or colours[column] != colours[begin]:
            yield begin, line[begin:column], colours[begin]
            begin = column


def draw_top(work):
    program = work / "server"
    subprocess.run(["cc", "-O1", "-g", "-o", program, ROOT / "tools/freehold/tests/programs/planted.c"], check=True)
    with subprocess.Popen([COMMAND, "run", "--sample", "4k", "--keep", work / "kept", program, "8"], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as observed:
        time.sleep(3)
        top = subprocess.Popen([COMMAND, "top", "server", "--batch"], stdout=subprocess.PIPE, text=True)
        time.sleep(16)
        top.terminate()
        screens = re.split(r"^(?=server \d+  running)", top.communicate()[0], flags=re.M)
        observed.stdin.close()
    # The last one may be cut in the middle.
    lines = [line.rstrip()[:100] for line in screens[-2].rstrip().splitlines()]
    width, height = round(100 * CELL) + 30, len(lines) * LINE + 30
    parts = [f'<rect width="{width}" height="{height}" rx="6" fill="#11161b"/>', f'<g {FONT} font-size="14" xml:space="preserve">']
    for row, line in enumerate(lines):
        for column, text, colour in coloured(line):
            if text.strip():
                # Its width is said, so that columns keep their places in every font.
                parts.append(f'<text x="{15 + column * CELL:.1f}" y="{30 + row * LINE}" fill="{colour}" '
                             f'textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>')
    svg("top.svg", width, height, parts + ["</g>"])


# ── The flame graph ──────────────────────────────────────────────────────────────────────────────────────────

WIDTH, ROW, ROWS, NARROW = 1000, 17, 28, 2.5


def tree_of(collapsed):
    """Frames by their callers, from lines "A;B;C BYTES"."""
    top = {"bytes": 0, "below": {}}
    for line in collapsed.splitlines():
        stack, _, size = line.rpartition(" ")
        if not size.isdigit():
            continue
        frame = top
        frame["bytes"] += int(size)
        for name in stack.split(";"):
            frame = frame["below"].setdefault(name, {"bytes": 0, "below": {}})
            frame["bytes"] += int(size)
    return top


def colour_of(name):
    mixed = zlib.crc32(name.encode())
    return f"hsl({20 + mixed % 40},{55 + mixed // 64 % 20}%,{72 + mixed // 4096 % 8}%)"


def frames(name, frame, x, depth, scale):
    width = frame["bytes"] * scale
    if width < NARROW or depth == ROWS:
        return
    yield x, depth, width, name, frame["bytes"]
    for below, child in sorted(frame["below"].items(), key=lambda item: -item[1]["bytes"]):
        yield from frames(below, child, x, depth + 1, scale)
        x += child["bytes"] * scale


def draw_flame(work):
    saved = work / "python.fhs"
    subprocess.run([COMMAND, "run", "--sample", "32k", "--keep", work / "kept", "--save", saved, sys.executable,
                    ROOT / "bench/real/tree.py", "2"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=os.environ | {"PYTHONMALLOC": "malloc"})
    collapsed = subprocess.run([COMMAND, "profile", saved, "--peak", "--collapsed"], check=True, capture_output=True, text=True).stdout
    tree = tree_of(collapsed)
    boxes = list(frames(f"all at the peak: {tree['bytes'] / 2**20:.1f} MiB", tree, 0, 0, WIDTH / tree["bytes"]))
    height = (max(box[1] for box in boxes) + 1) * ROW + 4
    parts = [f'<rect width="{WIDTH}" height="{height}" fill="#fbfaf7"/>', f'<g {FONT} font-size="11">']
    for x, depth, width, name, size in boxes:
        y = depth * ROW + 2
        parts.append(f'<g><title>{html.escape(name)}: {size / 2**20:.1f} MiB</title><rect x="{x:.1f}" y="{y}" width="{width - 0.6:.1f}" '
                     f'height="{ROW - 1}" fill="{colour_of(name)}"/>')
        letters = int((width - 6) / 6.7)
        if letters >= 4:
            shown = name if len(name) <= letters else name[:letters - 1] + "…"
            parts.append(f'<text x="{x + 3:.1f}" y="{y + 12}">{html.escape(shown)}</text>')
        parts.append("</g>")
    svg("flame.svg", WIDTH, height, parts + ["</g>"])


def main():
    OUT.mkdir(exist_ok=True)
    os.environ.pop("FREEHOLD", None)
    with tempfile.TemporaryDirectory() as work:
        draw_top(pathlib.Path(work))
        draw_flame(pathlib.Path(work))


main()

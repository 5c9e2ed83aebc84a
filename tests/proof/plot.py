#!/usr/bin/env python3
"""Draws docs/scaling.svg from what test-proof-scaling prints:  test-proof-scaling | plot.py > docs/scaling.svg

Misses for each operation over the number of threads, both axes logarithmic."""
import math
import sys

LEFT, RIGHT, TOP, BOTTOM = 70, 560, 30, 330
LOWEST, HIGHEST = 0.001, 1.0
COLOURS = {"replace": "#1b6ca8", "grow": "#b8860b", "pass": "#2a9d5c", "mutex, replace": "#b23a3a"}
LABELS = {
    "replace": "Freehold, own blocks replaced",
    "grow": "Freehold, the heap grows",
    "pass": "Freehold, all blocks cross threads",
    "mutex, replace": "one lock",
}


def read(lines):
    """The row of thread counts, and a row for each workload."""
    counts, rows = [], {}
    for line in lines:
        name, numbers = line[:14].strip(), line[14:].split()
        if name == "threads":
            counts = [int(n) for n in numbers]
        elif name in COLOURS:
            rows[name] = [float(n) for n in numbers]
    return counts, rows


def x_of(count):
    return LEFT + (RIGHT - LEFT) * math.log2(count) / 6


def y_of(value):
    share = math.log10(max(value, LOWEST) / LOWEST) / math.log10(HIGHEST / LOWEST)
    return BOTTOM - (BOTTOM - TOP) * share


def main():
    counts, rows = read(sys.stdin)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400" font-family="sans-serif" font-size="12">',
           '<rect width="640" height="400" fill="white"/>',
           '<text x="70" y="18">cache lines fetched from another processor, for each malloc or free (simulated)</text>']
    for value in (0.001, 0.01, 0.1, 1.0):
        y = y_of(value)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for count in counts:
        out.append(f'<text x="{x_of(count):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{count}</text>')
    out.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}" text-anchor="middle">threads</text>')
    for name, row in rows.items():
        shown = [(x_of(c), y_of(v)) for c, v in zip(counts, row) if v > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        x, y = shown[-1]
        above = -8 if name != "pass" else 16
        out.append(f'<text x="{x:.1f}" y="{y + above:.1f}" text-anchor="end" fill="{COLOURS[name]}">{LABELS[name]}</text>')
    out.append("</svg>")
    print("\n".join(out))


main()

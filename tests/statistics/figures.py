#!/usr/bin/env python3
"""All that Freehold says of a busy heap, held against each other, against what the program knows, and against the system:
figures.py PROGRAM FOLDER

JSON, metrics, mallinfo2, malloc_info and the table are made from the same figures, so they have to be equal to the byte.
What is live is known exactly. What is resident is known from the system: 2 % and 3 MiB of it may be left unexplained
(stacks and libraries of the threads; records that share a page with what was never written)."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import openmetrics

SLACK_BYTES = 3 << 20


def check(condition, message):
    if not condition:
        sys.exit(f"CHECK FAILED: {message}")


def equal(a, b, what):
    check(a == b, f"{what}: {a} and {b} should be equal")


def check_schema(figures):
    """What the public header says of the JSON."""
    equal(sorted(figures), sorted(["schema", "version", "taken_ns", "cost_ns", "options", "heap", "limits", "counters",
                                   "classes"]), "the members")
    equal(figures["schema"], 1, "the schema")
    check(re.fullmatch(r"\d+\.\d+\.\d+", figures["version"]), f"version {figures['version']}")
    for group in ("heap", "limits", "counters"):
        for key, value in figures[group].items():
            check(isinstance(value, int) and 0 <= value < 1 << 63, f"{group}.{key} is {value}")
    for row in figures["classes"]:
        equal(sorted(row), sorted(["size", "use", "slabs", "slots", "room", "made", "free", "cached", "live", "sampled",
                                   "occupancy"]), "the members of a class")


def check_equations(figures):
    heap = figures["heap"]
    live = cached = free = slots = blocks = 0
    for row in figures["classes"]:
        equal(row["made"], row["live"] + row["cached"] + row["free"], f"made and its parts in {row}")
        check(row["made"] <= row["room"], f"more blocks than room in {row}")
        equal(sum(row["occupancy"]), row["slabs"], f"slabs by their occupancy in {row}")
        if row["size"] and row["use"] != "own":
            live += row["live"] * row["size"]
            cached += row["cached"] * row["size"]
            free += row["free"] * row["size"]
            slots += row["slots"] << 16
            blocks += row["live"]
    return live, cached, free, slots, blocks, heap


def check_large(figures, live, touched, slots, huge_slots):
    """What is above 64 KiB: a block has its pages, and the rest of its slots was never touched."""
    heap = figures["heap"]
    large = [row for row in figures["classes"] if row["size"] == 0]
    large_slots = sum(row["slots"] << 16 for row in large)
    pages = heap["live_bytes"] - live
    least = large_slots - sum(row["live"] * (65536 - 4096) for row in large)
    check(least <= pages <= large_slots, f"large blocks have {pages} bytes of {large_slots}")
    equal(heap["fresh_bytes"], slots - touched + large_slots - pages + huge_slots - heap["huge_bytes"],
          "fresh bytes, and the classes and blocks")
    own = sum(row["slots"] << 16 for row in figures["classes"] if row["size"] and row["use"] == "own")
    equal(heap["mapped_bytes"], slots + own + large_slots + huge_slots + heap["dirty_bytes"] + heap["purged_bytes"],
          "mapped bytes and the slots")


def check_against_truth(figures, before, truth):
    heap, was = figures["heap"], before["heap"]
    # The C library has a few blocks of its own: what each thread was given, a stream.
    for key in ("live_blocks", "live_bytes"):
        got, known = heap[key] - was[key], truth[key]
        check(known <= got <= known + 20000, f"{key}: {got} where the program has {known}")
    equal(heap["huge_bytes"], truth["huge_bytes"], "huge bytes")
    equal(heap["huge_blocks"], truth["huge_blocks"], "huge blocks")
    check(truth["threads"] - 1 <= heap["threads"] <= truth["threads"], f"{heap['threads']} threads have a cache")
    check(heap["thread_cached_bytes"] > 0, "no thread has anything in its cache: this test would show little")
    check(heap["purged_in_slabs_bytes"] > 1 << 20, "no pages inside of slabs are gone: this test would show little")
    check(heap["purged_in_slabs_bytes"] <= heap["free_bytes"], "more pages gone than free")


def resident_parts(figures):
    heap = figures["heap"]
    return (heap["live_bytes"] + heap["cached_bytes"] + heap["free_bytes"] - heap["purged_in_slabs_bytes"]
            + heap["dirty_bytes"] + heap["huge_bytes"] + heap["metadata_bytes"])


def check_against_system(figures, before, truth):
    grown = truth["resident"] - truth["resident_before"]
    explained = resident_parts(figures) - resident_parts(before)
    off = explained - grown
    print(f"resident: {grown / 2**20:.1f} MiB more than before, explained {explained / 2**20:.1f} MiB "
          f"({100 * off / grown:+.2f} %)")
    check(abs(off) <= 0.02 * grown + SLACK_BYTES, f"{explained} bytes are explained of {grown}")
    said = figures["heap"]["resident_bytes"]
    # The quick figure of the system's lags behind by some pages a processor.
    check(abs(said - truth["resident"]) <= 0.02 * truth["resident"] + SLACK_BYTES,
          f"resident_bytes is {said}, smaps says {truth['resident']}")


def check_glibc(figures, folder):
    heap = figures["heap"]
    info = json.loads((folder / "mallinfo2.json").read_text())
    equal(info["uordblks"], heap["live_bytes"], "mallinfo2.uordblks")
    equal(info["fsmblks"], heap["cached_bytes"], "mallinfo2.fsmblks")
    equal(info["fordblks"], heap["free_bytes"] + heap["dirty_bytes"], "mallinfo2.fordblks")
    equal(info["arena"], info["uordblks"] + info["fsmblks"] + info["fordblks"], "mallinfo2.arena")
    equal(info["hblks"], heap["huge_blocks"], "mallinfo2.hblks")
    equal(info["hblkhd"], heap["huge_bytes"], "mallinfo2.hblkhd")
    equal(info["keepcost"], heap["dirty_bytes"], "mallinfo2.keepcost")
    tree = xml.etree.ElementTree.fromstring((folder / "malloc_info.xml").read_text())
    totals = {t.get("type"): (int(t.get("count")), int(t.get("size"))) for t in tree.findall("total")}
    equal(totals["fast"], (info["smblks"], heap["cached_bytes"]), "malloc_info: fast")
    equal(totals["rest"], (info["ordblks"] - info["smblks"], info["fordblks"]), "malloc_info: rest")
    equal(totals["mmap"], (heap["huge_blocks"], heap["huge_bytes"]), "malloc_info: mmap")
    equal(int(tree.find("system").get("size")), info["arena"] + heap["metadata_bytes"], "malloc_info: system")
    sizes = {int(s.get("to")): int(s.get("live")) for s in tree.find("heap/sizes").findall("size")}
    rows = dict.fromkeys(sizes, 0)
    for row in figures["classes"]:
        if row["size"] in sizes and row["use"] == "program":
            rows[row["size"]] += row["live"]
    equal(sizes, rows, "malloc_info: live blocks by size")


def as_text(size):
    """As the library writes sizes for people: one digit behind the point unless exact, rounded down."""
    if size < 1024:
        return f"{size} B"
    for unit, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> unit:
            whole, rest = size >> unit, size & (1 << unit) - 1
            tenths = (rest >> (unit - 10)) * 10 // 1024
            return f"{whole} {name}" if rest == 0 else f"{whole}.{tenths} {name}"
    return None


def check_table(figures, folder):
    heap = figures["heap"]
    rows = dict(re.findall(r"^  +([a-z][a-z, ]*[a-z]) +(\d[\d.]* [KMGT]?i?B)", (folder / "table.txt").read_text(), re.M))
    equal(rows["live"], as_text(heap["live_bytes"] + heap["huge_bytes"]), "the table: live")
    for row, key in (("cached", "cached_bytes"), ("free in slabs", "free_bytes"), ("dirty", "dirty_bytes"),
                     ("never handed out", "fresh_bytes"), ("of it huge", "huge_bytes"), ("own use", "metadata_bytes")):
        equal(rows[row], as_text(heap[key]), f"the table: {row}")


def check_metrics(figures, text):
    families = openmetrics.parse(text)
    openmetrics.cross_check(text)
    values = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families.values() for s in f.samples}
    other_names = {"purged_bytes": "unbacked_bytes", "resident_bytes": "process_resident_bytes",
                   "limit_soft": "limit_soft_bytes", "limit_hard": "limit_hard_bytes",
                   "limit_in_use": "limit_in_use_bytes", "group_limit": "group_limit_bytes",
                   "group_used": "group_used_bytes", "deferred_most": "deferred_limit_bytes"}
    # What the act of taking figures changes: the system is asked, and looks at itself.
    moving = {"resident_bytes", "group_used"}
    for group in ("heap", "limits"):
        for key, value in figures[group].items():
            if key not in moving:
                equal(values[f"freehold_{other_names.get(key, key)}", ()], value, f"metrics: {key}")
    equal(families["freehold_given_back_bytes"].kind, "counter", "the type of given_back_bytes")
    equal(values["freehold_given_back_bytes_total", ()], figures["counters"]["purged_total_bytes"], "given back")
    for row in figures["classes"]:
        if row["use"] == "own":
            continue
        label = (("size", str(row["size"]) if row["size"] else "large"), ("use", row["use"]))
        for key in ("slabs", "live", "free", "cached", "made"):
            equal(values[f"freehold_class_{key}", label], row[key], f"metrics: {key} of blocks of {row['size']}")
        for share, slabs in zip(("0.25", "0.5", "0.75", "1"), row["occupancy"]):
            equal(values["freehold_class_occupancy_slabs", (("below", share),) + label], slabs, "metrics: occupancy")


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if subprocess.run([program, folder]).returncode:
        sys.exit("the program failed")
    before, first, last = (json.loads((folder / f"{n}.json").read_text()) for n in ("before", "first", "last"))
    truth = json.loads((folder / "truth.json").read_text())
    for figures in (before, first, last):
        check_schema(figures)
        live, cached, free, slots, blocks, heap = check_equations(figures)
        check_large(figures, live, live + cached + free, slots, 0 if figures is before else truth["huge_slot_bytes"])
        equal(heap["cached_bytes"], cached, "cached bytes and the classes")
        equal(heap["free_bytes"], free, "free bytes and the classes")
    for key, value in first["counters"].items():
        check(last["counters"][key] >= value, f"the counter {key} went from {value} to {last['counters'][key]}")
    equal({k: v for k, v in first["heap"].items() if k != "resident_bytes"},
          {k: v for k, v in last["heap"].items() if k != "resident_bytes"}, "a heap that stands still")
    check_against_truth(first, before, truth)
    check_against_system(first, before, truth)
    check_glibc(first, folder)
    check_table(first, folder)
    check_metrics(last, (folder / "metrics.txt").read_text())
    print(f"{(folder / 'first.json').stat().st_size} bytes of JSON, {(folder / 'metrics.txt').stat().st_size} of metrics, "
          f"taken in {first['cost_ns'] / 1e6:.2f} ms")


main()

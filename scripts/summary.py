#!/usr/bin/env python3
"""The last lines of `make test`: what was skipped and why, where the time went, and how many tests passed: summary.py FOLDER

FOLDER holds what each step of scripts/test.sh left, by the step's name:
    STEP.xml     ctest's own record of its tests (JUnit)
    STEP.cargo   what `cargo test` printed
    STEP.skips   the file that FREEHOLD_SKIPS named: lines "TEST: REASON", and "TEST (in part): REASON" where the rest of a
                 test was done
    times        a line "STEP SECONDS" for each step, with a third word where some of the seconds went into building

A test that skips itself as a whole is a passed one for cargo; here it is a skipped one for both."""

import pathlib
import re
import sys
import xml.etree.ElementTree

IN_PART = " (in part): "


def lines_of(path):
    """Each line once: a test may start several programs that lack the same thing."""
    return list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines())) if path.exists() else []


def of_ctest(path, notes):
    """Passed, failed, skipped by ctest's record; adds a note for each test that ctest skipped and that gave no reason."""
    passed = failed = skipped = 0
    for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = test.get("name")
        if test.find("failure") is not None or test.get("status") == "fail":
            failed += 1
        elif test.find("skipped") is not None or test.get("status") != "run":
            skipped += 1
            if not any(note.startswith(f"{name}: ") for note in notes):
                notes.append(f"{name}: it gave no reason")
        else:
            passed += 1
    return passed, failed, skipped


def of_cargo(path, notes):
    """The same by what cargo printed."""
    results = re.findall(r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored;", path.read_text(encoding="utf-8"), re.M)
    passed, failed, ignored = (sum(int(result[i]) for result in results) for i in range(3))
    if ignored:
        notes.append(f"{ignored} tests are marked #[ignore]: no reason is known here")
    whole = sum(IN_PART not in note for note in notes) - (1 if ignored else 0)
    return passed - whole, failed, whole + ignored


def minutes(seconds):
    return f"{seconds // 60}:{seconds % 60:02}"


def table_of_parts(path, numbers):
    """Each step's time and tests. `numbers` has passed, failed and skipped by the step's name; lint, say, has none."""
    rows = [("part", "time", "building", "passed", "failed", "skipped")]
    total = 0
    for line in lines_of(path):
        step, seconds, *building = line.split()
        total += int(seconds)
        tests = [str(n or "") for n in numbers.get(step, (0, 0, 0))]
        rows.append((step, minutes(int(seconds)), *([minutes(int(building[0]))] if building else [""]), *tests))
    rows.append(("all", minutes(total), "", "", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([row[0].ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:])]).rstrip()
            for row in rows]


def main():
    folder = pathlib.Path(sys.argv[1])
    passed = failed = skipped = parts = 0
    told = []
    by_step = {}
    for record in sorted((*folder.glob("*.xml"), *folder.glob("*.cargo")), key=lambda path: path.stat().st_mtime_ns):
        notes = lines_of(record.with_suffix(".skips"))
        numbers = by_step[record.stem] = (of_ctest if record.suffix == ".xml" else of_cargo)(record, notes)
        passed, failed, skipped = (a + b for a, b in zip((passed, failed, skipped), numbers))
        parts += sum(IN_PART in note for note in notes)
        told += [f"  {record.stem}: {note}" for note in sorted(notes)]
    if skipped or parts:
        print(f"\n== skipped: {skipped} {'test' if skipped == 1 else 'tests'}, and {parts} in part", *told, sep="\n")
    else:
        print("\n== skipped: none")
    times = folder / "times"
    if times.exists():
        print("\n== time by part, in minutes and seconds", *(f"  {row}" for row in table_of_parts(times, by_step)), sep="\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


main()

#!/usr/bin/env python3
"""The figures of README.md and docs/: each has a command, and all of them are in docs/figures.toml.

    scripts/figures.py                 run the quick commands, rewrite the file and the numbers that cite it
    scripts/figures.py NAME...         these, and all that the same commands print; slow ones run only when named
    scripts/figures.py --check         run nothing; fail when a document and the file differ
    scripts/figures.py --self-test     the same, then plant one fault of each kind and fail unless each is found

An entry of docs/figures.toml:

    what       says in words what is measured; numbers that only describe it (a size, a version) stand here
    command    what prints it, run by bash at the top of the repository
    record     of a slow command: the document that keeps what it prints, between two comments
    find       patterns, each with groups; or
    row        a table row: the text that stands before the table, and the row's first cell
    digits     behind the point, if the command prints more than a reader wants
    values     what was found, in order; with date and machine, all three are written by this script
    unit       of a table row whose reference is absolute and whose other cells are ratios to it: s, ms or MiB. Found, too.
               In the document's row the lowest is bold

A document cites entries at the end of a table row, or of a paragraph or list item:

    It takes 32 instructions.  <!-- figures: hotpath -->

The numbers before the mark have to contain all values of the entries in their order. Every other number there has to
occur in the `what` of one of them. In README's section "What it gains" no number may stand outside of such a mark."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

FILE = "docs/figures.toml"
CITED_IN = ["README.md", "docs"]
HELD = ("README.md", "## What it gains")
MARK = re.compile(r"<!-- figures: ([\w, -]+?) -->")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
RECORD = re.compile(r"(?<=<!-- record: begins -->\n\n).*?(?=\n<!-- record: ends -->)", re.S)
ORDER = ["what", "command", "slow", "record", "find", "row", "digits", "unit", "values", "date", "machine"]
HEADER = """# Every figure that README.md and docs/ cite, with the command that prints it.
# `make figures` rewrites values, date and machine; `make figures ONLY=name` those of one entry. See scripts/figures.py.
"""


# ── The file ─────────────────────────────────────────────────────────────────────────────────────────────────

def load(root):
    with open(os.path.join(root, FILE), "rb") as file:
        return tomllib.load(file)


def quoted(text):
    return f"'{text}'" if "\\" in text and "'" not in text else json.dumps(text, ensure_ascii=False)


def store(root, figures):
    text = HEADER
    for name, figure in figures.items():
        text += f"\n[{name}]\n"
        for key in ORDER:
            if key not in figure:
                continue
            value = figure[key]
            if isinstance(value, list):
                text += f"{key} = [{', '.join(quoted(each) for each in value)}]\n"
            else:
                text += f"{key} = {quoted(value) if isinstance(value, str) else json.dumps(value)}\n"
    with open(os.path.join(root, FILE), "w", encoding="utf-8") as file:
        file.write(text)


def machine():
    """The class of machine: processor, cores, whether it is virtual, kernel. No name of a host."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    model = re.search(r"model name\s*: (.*)", text)
    virtual = ", virtual" if re.search(r"^flags.*\bhypervisor\b", text, re.M) else ""
    kernel = ".".join(os.uname().release.split(".")[:2])
    return f"{model[1] if model else os.uname().machine}, {os.cpu_count()} cores{virtual}, Linux {kernel}"


# ── Running ──────────────────────────────────────────────────────────────────────────────────────────────────

def values_in(figure, output):
    """What the command printed, as it is but for a decimal part of zero."""
    found = []
    if "row" in figure:
        before, first = figure["row"]
        row = re.search(re.escape(before) + r".*?^\| " + re.escape(first) + r" \|([^\n]*)$", output, re.S | re.M)
        if not row:
            raise ValueError(f"no row {first!r} after {before!r}")
        found = [number[0] for number in map(NUMBER.search, row[1].split("|")) if number]
    for pattern in figure.get("find", []):
        match = re.search(pattern, output, re.M)
        if not match:
            raise ValueError(f"nothing matches {pattern!r}")
        found += match.groups()
    if "digits" in figure:
        found = [f"{float(value):.{figure['digits']}f}" for value in found]
    return [re.sub(r"\.0$", "", value) for value in found]


def unit_in(figure, output):
    """The unit of a row's absolute cell, or None."""
    before, first = figure.get("row", ["", ""])
    row = re.search(re.escape(before) + r".*?^\| " + re.escape(first) + r" \|([^\n]*)$", output, re.S | re.M)
    unit = re.search(r"\d (s|ms|MiB)\b", row[1]) if first and row else None
    return unit and unit[1]


def run_command(root, command):
    print(command, flush=True)
    run = subprocess.run(["bash", "-c", command], cwd=root, stdin=subprocess.DEVNULL, text=True,
                         stdout=subprocess.PIPE, timeout=7200, check=False)
    return run.stdout, run.returncode


def keep_record(path, output):
    """Puts what the command printed between the comments of its document."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(RECORD.sub(lambda _: output, text))


def refresh(root, figures, names):
    """Each command runs once, for all that it prints. A command that fails changes no figure, and is said."""
    commands = {figures[name]["command"] for name in names}
    outputs = {command: run_command(root, command) for command in sorted(commands)}
    failed = False
    records = {}
    for name, figure in figures.items():
        if figure["command"] not in commands:
            continue
        output, code = outputs[figure["command"]]
        try:
            values = values_in(figure, output)
            if code != 0:
                raise ValueError(f"exit code {code}, with {' '.join(values)} instead of {' '.join(figure['values'])}")
        except ValueError as error:
            print(f"{output[-1500:]}\n{name}: {error}", file=sys.stderr)
            failed = True
            continue
        if "record" in figure:
            records[os.path.join(root, figure["record"])] = output
        print(f"{name}: {' '.join(figure.get('values', ['nothing']))} -> {' '.join(values)}")
        figure["new"] = values
        figure["unit"] = unit_in(figure, output)
        if not figure["unit"]:
            del figure["unit"]
        figure["date"], figure["machine"] = datetime.date.today().isoformat(), machine()
    for path, output in records.items():
        keep_record(path, output)
    for path in documents(root):
        rewrite(path, figures)
    for figure in figures.values():
        figure["values"] = figure.pop("new", figure.get("values", []))
    store(root, figures)
    return not failed


# ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────

def documents(root):
    for place in CITED_IN:
        path = os.path.join(root, place)
        if os.path.isdir(path):
            yield from (os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".md"))
        else:
            yield path


def units(text):
    """The units of a document as (start, end): a table row, or the lines of one paragraph or list item."""
    start = at = 0
    for line in text.splitlines(keepends=True):
        begins = line.startswith(("|", "#", "- ", "* ")) or not line.strip()
        if begins and start < at:
            yield start, at
            start = at
        at += len(line)
        if line.startswith("|") or not line.strip():
            yield start, at
            start = at
    if start < at:
        yield start, at


def numbers_in(unit):
    """Number and position; code, comments and the targets of links do not count."""
    def blank(found):
        return " " * len(found[0])
    plain = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)", blank, unit, flags=re.S)
    return [(found[0].rstrip(","), found.start()) for found in NUMBER.finditer(plain)]


def matched(unit, values):
    """Positions in the unit's numbers of the values in order, or None. Found from the end, where rows have them."""
    numbers, at, places = numbers_in(unit), len(values) - 1, []
    for index in range(len(numbers) - 1, -1, -1):
        if at >= 0 and numbers[index][0].replace(",", "") == values[at].replace(",", ""):
            places.append(index)
            at -= 1
    return (numbers, sorted(places)) if at < 0 else (numbers, None)


def cited(unit):
    """The names behind a unit's mark, or None."""
    mark = MARK.search(unit)
    return [name.strip() for name in mark[1].split(",")] if mark else None


def dressed(row, figure):
    """A table row with the figure's unit, and the lowest of its ratios bold. The absolute cell counts as 1."""
    cells, number = row.split("|"), re.compile(r"\*{0,2}(\d[\d,]*(?:\.\d+)?)( s| ms| MiB)?\*{0,2}")
    found = {at: number.fullmatch(cell.strip()) for at, cell in enumerate(cells)}
    found = {at: match for at, match in found.items() if match}
    ratio = {at: 1.0 if match[2] else float(match[1].replace(",", "")) for at, match in found.items()}
    for at, match in found.items():
        text = match[1] + (f" {figure['unit']}" if match[2] else "")
        cells[at] = f" **{text}** " if ratio[at] == min(ratio.values()) else f" {text} "
    return "|".join(cells)


def rewrite(path, figures):
    """Puts new values where the old ones stand."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    result = text
    for start, end in reversed(list(units(text))):
        unit = text[start:end]
        names = cited(unit)
        if not names or any(name not in figures for name in names):
            continue
        old = [value for name in names for value in figures[name].get("values", [])]
        new = [value for name in names for value in figures[name].get("new", figures[name].get("values", []))]
        numbers, places = matched(unit, old)
        if places is None or len(old) != len(new):
            continue # said by --check
        for index, value in reversed(list(zip(places, new))):
            number, at = numbers[index]
            if number.replace(",", "") == value:
                continue
            if "," in number:
                value = f"{int(value):,}"
            unit = unit[:at] + value + unit[at + len(number):]
        if "unit" in figures[names[0]]:
            unit = dressed(unit, figures[names[0]])
        result = result[:start] + unit + result[end:]
    if result != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(result)


# ── Checking ─────────────────────────────────────────────────────────────────────────────────────────────────

def check_entries(root, figures):
    for name, figure in figures.items():
        for key in ("what", "command", "values", "date", "machine"):
            if not figure.get(key):
                yield f"{FILE}: {name} has no {key}"
        if "record" in figure:
            with open(os.path.join(root, figure["record"]), encoding="utf-8") as file:
                record = RECORD.search(file.read())
                try:
                    if values_in(figure, record[0] if record else "") != figure.get("values"):
                        yield f"{FILE}: {name} is not what {figure['record']} says"
                except ValueError as error:
                    yield f"{FILE}: {name}: {figure['record']}: {error}"


def check_unit(where, unit, names, figures):
    unknown = [name for name in names if name not in figures]
    if unknown:
        yield f"{where}: no figure is called {', '.join(unknown)}"
        return
    values = [value for name in names for value in figures[name].get("values", [])]
    numbers, places = matched(unit, values)
    if places is None:
        yield f"{where}: not the values of {', '.join(names)}: {' '.join(values)}"
        return
    if "unit" in figures[names[0]] and dressed(unit, figures[names[0]]) != unit:
        yield f"{where}: the unit is another one, or the lowest is not bold"
    described = {number for name in names for number, _ in numbers_in(figures[name].get("what", ""))}
    for index, (number, _) in enumerate(numbers):
        if index not in places and number not in described:
            yield f"{where}: {number} is in no figure that stands there"


def check_document(root, path, figures, counts):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    short = os.path.relpath(path, root)
    held = False
    described = {number for figure in figures.values() for number, _ in numbers_in(figure.get("what", ""))}
    for start, end in units(text):
        unit = text[start:end]
        where = f"{short}:{text.count(chr(10), 0, start) + 1}"
        if unit.startswith("## "):
            held = short == HELD[0] and unit.startswith(HELD[1])
            counts["held"] += held
        names = cited(unit)
        if names:
            counts["marks"] += 1
            counts["names"].update(names)
            yield from check_unit(where, unit, names, figures)
        elif held:
            # The head of a table cannot have a mark; what it names are the versions of the entries.
            for number, _ in numbers_in(unit):
                if not (unit.startswith("|") and number in described):
                    yield f"{where}: {number} has no figure"


def check(root):
    figures, counts = load(root), {"marks": 0, "held": 0, "names": set()}
    problems = list(check_entries(root, figures))
    for path in documents(root):
        problems += check_document(root, path, figures, counts)
    problems += [f"{FILE}: {name} is cited nowhere" for name in figures if name not in counts["names"]]
    if counts["marks"] < 10 or counts["held"] != 1:
        problems.append(f"{counts['marks']} marks found, and {counts['held']} sections {HELD[1]!r}: too little to check")
    for problem in problems:
        print(problem)
    print(f"{len(figures)} figures, {counts['marks']} places that cite them, {len(problems)} problems")
    return not problems


# What is planted: file, text that is there, what takes its place, and the words by which it must be found.
PLANTED = [
    ("README.md", r"(\d)( \|.*figures: suite-cpu -->)", r"\g<1>7\2", "not the values of"),
    ("README.md", r"(## What it gains\n)", r"\1\nIt is 17 times as good.\n", "17 has no figure"),
    ("README.md", r"figures: hotpath -->", r"figures: hotpaths -->", "no figure is called hotpaths"),
    ("README.md", r"<!-- figures: hotpath -->", r"and 4711 <!-- figures: hotpath -->", "4711 is in no figure"),
    ("README.md", r" <!-- figures: trivial -->", r"", "trivial is cited nowhere"),
    ("README.md", r" s( \|.*figures: replace-cpu -->)", r" ms\1", "the unit is another one"),
    ("README.md", r"\*\*(.*figures: replace-cpu -->)", r"\1", "the lowest is not bold"),
    (FILE, r"\ncommand = [^\n]*", r"", "has no command"),
    ("docs/benchmarks.md", r"(\n\| Freehold \| )\d", r"\g<1>7", "is not what docs/benchmarks.md says"),
]


def self_test(root):
    good = True
    for name, pattern, replacement, words in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(root, "README.md"), folder)
            shutil.copytree(os.path.join(root, "docs"), os.path.join(folder, "docs"))
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text, count = re.subn(pattern, replacement, file.read(), count=1)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            run = subprocess.run([sys.executable, __file__, "--check", "--root", folder], capture_output=True, text=True,
                                 check=False)
            found = count == 1 and run.returncode != 0 and words in run.stdout
            print(f"{'found' if found else 'MISSED'}: {words!r}, planted in {name}")
            good = good and found
    return good


def main():
    words = sys.argv[1:]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if "--root" in words:
        at = words.index("--root")
        root = words[at + 1]
        del words[at:at + 2]
    if words in (["--check"], ["--self-test"]):
        passed = check(root)
        if words == ["--self-test"]:
            passed = self_test(root) and passed
        sys.exit(0 if passed else 1)
    figures = load(root)
    unknown = [word for word in words if word not in figures]
    if unknown:
        sys.exit(f"no figure is called {', '.join(unknown)}; there are: {', '.join(figures)}")
    passed = refresh(root, figures, words or [name for name in figures if not figures[name].get("slow")])
    sys.exit(0 if check(root) and passed else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the documents point at is there: references.py SOURCE-ROOT BUILD

1. A link inside the repository leads to a file, and to a title of it where it names one.
2. Each document is reached from README.md by links.
3. A test that is cited by name (`purge.limit`, `life.sandbox.*`) is known to the ctest of the build.
4. The walks of docs/HACKING.md: each file is there (but for "new" ones), and what is said to be in it is.
5. Each option of the library is in the table of README.md and in the list of freehold.h.
6. Each folder of tests/ has a row in tests/README.md, and each label of ctest is named there.
7. src/README.md says how many functions a port provides, docs/concurrency.md how many bugs are seeded in the model, and how
   many scenarios there are.
8. A comment of the C code that points to a file (`store/slab.c`) points to one that is there.

Before that one mistake of each kind is planted, and has to be found."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import sources  # noqa: E402

LINK = re.compile(r"\]\(([^)\s]+)\)")
CITED = re.compile(r"`([a-z_]+(?:\.[a-z0-9_*-]+)+)`")
# `memory.max` and its relatives are files of a control group.
KERNEL = re.compile(r"memory\.(?:max|high|current|pressure|stat|limit_in_bytes|usage_in_bytes)$")
# Names of files, and tests of builds that are not this one.
ELSEWHERE = re.compile(r".*\.(?:c|h|cc|py|rs|sh|md|toml|txt|so|a|svg|json)$|observe\.tsan\.")


def documents(root):
    return [root / name for name in sources.listed(root, ".md")]


def prose(path):
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors(path):
    """The titles of a document, as links name them."""
    titles = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path):
    """Each link of the document to something in the repository: as it is written, the file, the title."""
    for target in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, title = target.partition("#")
        yield target, (path.parent / name).resolve() if name else path, title


def check(root, read, tests):
    """The problems of the documents, in words; `root` is where those of `read` are."""
    problems, leads = [], {path: set() for path in read}
    for path in read:
        where = path.relative_to(root)
        for target, file, title in links(path):
            leads[path].add(file / "README.md" if file.is_dir() else file)
            if not file.exists():
                problems.append(f"{where}: {target} is not there")
            elif title and file.suffix == ".md" and title not in anchors(file):
                problems.append(f"{where}: {target}: no such title")
        prefixes = {name.split(".")[0] for name in tests}
        for name in set(CITED.findall(prose(path))):
            if name.split(".")[0] not in prefixes or KERNEL.match(name) or ELSEWHERE.match(name):
                continue
            stem = name.split("*")[0]
            if not any(test == stem or test.startswith(stem if "*" in name else stem + ".") for test in tests):
                problems.append(f"{where}: no test is called {name}")
    seen, new = set(), [root / "README.md"]
    while new:
        path = new.pop()
        if path not in seen:
            seen.add(path)
            new += leads.get(path, ())
    problems += [f"{path.relative_to(root)}: no link leads to it from README.md" for path in read if path not in seen]
    return problems


def identifiers(cell):
    """What a cell names in code: `Row`, `fh_order`, `make_rows()`."""
    return re.findall(r"`([A-Za-z_][A-Za-z0-9_]*)(?:\(\))?`", cell)


def check_walks(root, walks):
    """Rows of "| step | file | what is there |". A second file of a row may be named without its folder."""
    problems = []
    for row in re.findall(r"^\| \d+ \| (.*) \|$", walks.read_text(encoding="utf-8"), re.M):
        names, _, about = row.partition(" | ")
        folder, texts = "", []
        for name in re.findall(r"`([\w./-]+\.[a-z]+)`", names):
            path = root / name if "/" in name else root / folder / name
            folder = pathlib.Path(name).parent if "/" in name else folder
            if path.exists():
                texts.append(path.read_text(encoding="utf-8"))
            elif not about.startswith("new"):
                problems.append(f"{walks.relative_to(root)}: {name} is not there")
        for word in identifiers(about):
            whole = re.compile(rf"\b{word}\b")
            if texts and not (root / folder / word).exists() and not any(whole.search(text) for text in texts):
                problems.append(f"{walks.relative_to(root)}: {word} is not in {names}")
    return problems


def check_options(root):
    keys = re.findall(r'^    \{"([a-z_]+)",', (root / "src/api/options.c").read_text(encoding="utf-8"), re.M)
    rows = re.findall(r"^\| `([a-z_]+)` \|", (root / "README.md").read_text(encoding="utf-8"), re.M)
    listed = re.findall(r"^ \*     ([a-z_]+) {2,}", (root / "include/freehold/freehold.h").read_text(encoding="utf-8"), re.M)
    problems = [] if keys else ["no options were found in src/api/options.c"]
    problems += [f"README.md: option {key} has no row" for key in keys if key not in rows]
    return problems + [f"freehold.h: option {key} is not in the list" for key in keys if key not in listed]


def check_folders(root, labels):
    text = (root / "tests/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_]+)/` \|", text, re.M)
    folders = sorted(path.name for path in (root / "tests").iterdir() if path.is_dir() and path.name != "__pycache__")
    problems = [f"tests/README.md: {name}/ has no row" for name in folders if name not in rows]
    return problems + [f"tests/README.md: label {label} is not in it" for label in labels if f"`{label}`" not in text]


def check_seam(root):
    text = re.sub(r"/\*.*?\*/", "", (root / "src/system/system.h").read_text(encoding="utf-8"), flags=re.S)
    count = len(re.findall(r"^[a-z][^;{}()\n]*\bfh_system_\w+\(", text, re.M))
    said = re.findall(r"`system/system\.h` \| (\d+) functions", (root / "src/README.md").read_text(encoding="utf-8"))
    return [] if said == [str(count)] else [f"src/README.md: system.h has {count} functions, not {' '.join(said) or 'none'}"]


def check_seeded(root):
    texts = [path.read_text(encoding="utf-8") for path in (root / "model").glob("mutants*.rs")]
    count = sum(len(re.findall(r'^ *name: "', text, re.M)) for text in texts)
    said = re.findall(r"(\d+) seeded bugs in", (root / "docs/concurrency.md").read_text(encoding="utf-8"))
    return [] if said == [str(count)] else [f"docs/concurrency.md: {count} bugs are seeded, not {' '.join(said) or 'none'}"]


SCENARIOS = {
    "runs over several chunks": "runs", "edges": "edges", "large blocks": "large", "the kept run": "kept", "holes": "holes",
    "guarded blocks": "guards", "hardened partitions": "hardened", "quarantine": "quarantine", "the recorder's order": "order",
    "deferred free": "defer", "three threads": "three",
}


def check_scenarios(root):
    """The table of scenarios, and how many the stall test provokes."""
    text = (root / "docs/concurrency.md").read_text(encoding="utf-8")
    model = "".join(path.read_text(encoding="utf-8") for path in sorted((root / "model/src").glob("*.rs")))
    stall = "".join((root / "tests/proof" / name).read_text(encoding="utf-8") for name in ("stall_scenarios.c", "stall_meetings.c")
                    if (root / "tests/proof" / name).exists())
    counted = {rf"^\| {row}: (\d+)": len(re.findall(rf'^ *"{name}: ', model, re.M)) for row, name in SCENARIOS.items()}
    counted[r"^(\d+) scenarios provoke"] = len(re.findall(r'\.name = "', stall))
    problems = []
    for pattern, count in counted.items():
        said = re.findall(pattern, text, re.M)
        if (count or said) and said != [str(count)]:
            problems.append(f"docs/concurrency.md: {count} scenarios, not {' '.join(said) or 'none'}, by {pattern}")
    return problems


def check_comments(root):
    problems = []
    for path in sorted((root / "src").rglob("*.[ch]")):
        for comment in re.findall(r"/\*.*?\*/|//[^\n]*", path.read_text(encoding="utf-8"), re.S):
            for name in re.findall(r"(?<![\w/])((?:[a-z_]+/)+[a-z_]+\.(?:c|h|cc|def))\b", comment):
                if not any((at / name).exists() for at in (root / "src", root / "tests", root / "include", root, path.parent)):
                    problems.append(f"{path.relative_to(root)}: {name} is not there")
    return problems


def check_code(root, labels):
    walks = check_walks(root, root / "docs/HACKING.md")
    return walks + check_options(root) + check_folders(root, labels) + check_seam(root) + check_seeded(root) + check_scenarios(root) + \
        check_comments(root)


def plant_code(root):
    """A repository of a few files with one mistake of each kind that check_code looks for; what it has to find."""
    files = {
        "docs/HACKING.md": "| 1 | `src/api/options.c`, `gone.c` | `key` and `nowhere` |\n| 2 | `src/x.c` | new |\n",
        "src/api/options.c": '    {"key", "about"},\n    {"other", "about"},\n/* see api/left.h and api/options.c */\n',
        "README.md": "| `key` | what it does |\n",
        "include/freehold/freehold.h": " *     other      0 1\n",
        "src/system/system.h": "/* a seam */\nvoid fh_system_a(int x);\nfh_word *fh_system_b(void);\n",
        "model/mutants.rs": '        name: "one",\n        name: "two",\n',
        "docs/concurrency.md": "1 seeded bugs in the real files\n| edges: 2 | none |\n| holes: 1 |\n3 scenarios provoke it\n",
        "model/src/a.rs": '            "edges: one",\n    "holes: one",\n', "tests/proof/stall_scenarios.c": '{.name = "a"},\n',
        "src/README.md": "| `system/system.h` | 3 functions: |\n",
        "tests/README.md": "| `here/` | x | `known` |\n",
        "tests/here/a.c": "", "tests/there/b.c": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return ["gone.c is not there", "nowhere is not in", "option other has no row", "option key is not in the list",
            "proof/ has no row", "there/ has no row", "label unknown is not in it", "has 2 functions, not 3", "2 bugs are seeded, not 1",
            "1 scenarios, not 2, by", "1 scenarios, not 3, by",
            "api/left.h is not there"]


def self_test_code():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        wanted = plant_code(root)
        found = check_code(root, ["known", "unknown"])
        if len(found) != len(wanted) or any(not any(text in problem for problem in found) for text in wanted):
            sys.exit(f"CHECK FAILED: planted {wanted}, found {found}")


def self_test(tests):
    """Plants one mistake of each kind beside what is right."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        (root / "README.md").write_text("# One\n[a](a.md#two-words) [b](gone.md) [c](a.md#none)\n`purge.nothing` `purge.limit`\n")
        (root / "a.md").write_text("# Two words\n[back](#two-words)\n")
        (root / "alone.md").write_text("# Alone\n")
        found = check(root, [root / name for name in ("README.md", "a.md", "alone.md")], tests)
        wanted = ["gone.md is not there", "a.md#none: no such title", "no test is called purge.nothing", "alone.md: no link"]
        missed = [text for text in wanted if not any(text in problem for problem in found)]
        if missed or len(found) != len(wanted):
            sys.exit(f"CHECK FAILED: planted {wanted}, found {found}")


def main():
    root, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    told = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    tests = re.findall(r"^ *Test +#\d+: (\S+)", told, re.M)
    named = subprocess.run(["ctest", "--test-dir", build, "--print-labels"], capture_output=True, text=True, check=True).stdout
    labels = re.findall(r"^  (\S+)$", named, re.M)
    read = documents(root)
    if len(tests) < 100 or not read or not labels:
        sys.exit(f"CHECK FAILED: {len(tests)} tests, {len(labels)} labels and {len(read)} documents: nothing was checked")
    self_test(tests)
    self_test_code()
    problems = check(root, read, tests) + check_code(root, labels)
    print(*problems, sep="\n")
    print(f"{len(read)} documents, {len(tests)} tests, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()

#!/usr/bin/env python3
"""What the documents point at is there: references.py SOURCE-ROOT BUILD

1. A link inside the repository leads to a file, and to a title of it where it names one.
2. Each document is reached from README.md by links.
3. A test that is cited by name (`purge.limit`, `life.sandbox.*`) is known to the ctest of the build.

Before that one mistake of each kind is planted, and has to be found."""

import pathlib
import re
import subprocess
import sys
import tempfile

LINK = re.compile(r"\]\(([^)\s]+)\)")
CITED = re.compile(r"`([a-z_]+(?:\.[a-z0-9_*-]+)+)`")
# `memory.max` and its relatives are files of a control group.
KERNEL = re.compile(r"memory\.(?:max|high|current|pressure|stat|limit_in_bytes|usage_in_bytes)$")
# Names of files, and tests of builds that are not this one.
ELSEWHERE = re.compile(r".*\.(?:c|h|cc|py|rs|sh|md|toml|txt|so|a|svg|json)$|observe\.tsan\.")


def documents(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.md"], capture_output=True, text=True, check=False).stdout
    return [root / name for name in listed.splitlines() if (root / name).exists()]


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
    read = documents(root)
    if len(tests) < 100 or not read:
        sys.exit(f"CHECK FAILED: {len(tests)} tests and {len(read)} documents: nothing was checked")
    self_test(tests)
    problems = check(root, read, tests)
    print(*problems, sep="\n")
    print(f"{len(read)} documents, {len(tests)} tests, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()

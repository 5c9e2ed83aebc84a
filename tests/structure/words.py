#!/usr/bin/env python3
"""One word, one thing: words.py SOURCE-ROOT

The library, its headers and the documents use the words of the field. Those below had other meanings beside them, or were private
ones, and have gone: in names, comments, messages and prose. A word that is planted first has to be found."""

import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import sources  # noqa: E402

# What is not said any more, and what is said.
WORDS = {
    "regret": "refault credit",
    "ebb|retreat": "contraction, shrinking",
    "sublet|lodger": "hole reuse: a borrowed slab, a guest block",
    "fruitless|patience": "back-off",
    "strewn": "scattered",
    "at hand|in hand|hand in": "cached, most recent, flush",
    "give back|gives back|giving back|given back|goes home": "purge, release, return to the OS",
    "anew": "again",
    "seldom": "rarely",
    "mostly": "usually",
    "but for": "except",
    "whoever": "a noun",
    "goes on without": "continues",
    "travels": "is handed to",
    "so many bytes": "`bytes`, n bytes",
    "folder": "directory",
    "processor": "CPU",
}
FOUND = re.compile("|".join(rf"(?P<w{i}>(?<![A-Za-z])(?:{words})(?![A-Za-z]))" for i, words in enumerate(WORDS)), re.I)
WHERE = ("src/", "include/")
# An option of the command has its name.
ALLOWED = re.compile(r"--patience")


def problems(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        for found in FOUND.finditer(ALLOWED.sub("", line)):
            yield f"{name}:{number}: \"{found[0]}\": {list(WORDS.values())[int(found.lastgroup[1:])]}"


def main():
    root = pathlib.Path(sys.argv[1])
    names = sources.listed(root, ".md")
    names += [name for name in sources.listed(root, ".c", ".h", ".cc", ".hpp", ".def") if name.startswith(WHERE)]
    if len(names) < 200:
        sys.exit(f"CHECK FAILED: {len(names)} files: nothing was checked")
    if len(list(problems("planted", "/* It lies at hand. */\nint regret;\n/* --patience and a foldera */\n"))) != 2:
        sys.exit("CHECK FAILED: what was planted is not what was found")
    found = [problem for name in names for problem in problems(name, (root / name).read_text(encoding="utf-8"))]
    print(*found, sep="\n")
    print(f"{len(names)} files, {len(found)} words")
    sys.exit(1 if found else 0)


main()

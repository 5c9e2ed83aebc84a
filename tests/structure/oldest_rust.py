#!/usr/bin/env python3
"""The Rust here is that of the oldest compiler that is promised: oldest_rust.py SOURCE-ROOT

1. The same version is in scripts/install-deps.sh and in the manifests of both workspaces, where clippy reads it.
2. No `if let` is part of a chain or of a guard: that is newer, and clippy says nothing of it.

Before that mistakes of each kind are planted, and have to be found. A bare Debian 13 (`make bare`) has that compiler."""

import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import sources  # noqa: E402

NOISE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.S)
CHAIN = re.compile(r"\s&&\s")
OPENING, CLOSING = "([", ")]"


def newer(text):
    """The numbers of the lines where a `let` is not the whole condition."""
    # Line ends stay, so that the numbers are right.
    text = NOISE.sub(lambda noise: re.sub(r"[^\n]", " ", noise[0]), text)
    found = {text.count("\n", 0, at.start()) + 1 for at in re.finditer(r"&&\s*let\b", text)}
    for condition in re.finditer(r"\b(?:if|while)\s+let\b", text):
        depth = 0
        for at in range(condition.end(), len(text)):
            depth += (text[at] in OPENING) - (text[at] in CLOSING)
            if depth == 0 and text[at] in "{;":
                break
            if depth == 0 and (CHAIN.match(text, at) or text.startswith("=>", at)):
                found.add(text.count("\n", 0, condition.start()) + 1)
                break
    return sorted(found)


def self_test():
    for wrong in ("if let Some(a) = b && a {}", "if a && let Some(b) = c {}", "while let Some(a) = b\n    && a\n{}",
                  "match a { B if let Some(c) = d => {} }"):
        assert newer(f"\n{wrong}\n"), wrong
    for right in ("if let Some(a) = b.filter(|b| b.c && b.d) {}", "if let Some(a) = &&b { a && b }",
                  'if let Some(a) = "x && y" {} // && let', "match a { B if c && d => {} }", "let Some(a) = b else { c && d };"):
        assert not newer(f"\n{right}\n"), right


def versions(root):
    deps = (root / "scripts/install-deps.sh").read_text(encoding="utf-8")
    yield "scripts/install-deps.sh", re.search(r'^rust_minimum="(\d+\.\d+)', deps, re.M)
    for manifest in ("tools/Cargo.toml", "model/Cargo.toml"):
        yield manifest, re.search(r'^rust-version = "(\d+\.\d+)', (root / manifest).read_text(encoding="utf-8"), re.M)


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    wrong = []
    said = {name: found and found[1] for name, found in versions(root)}
    if len(set(said.values())) != 1 or None in said.values():
        wrong.append(f"not one oldest Rust: {said}")
    files = sources.listed(root, ".rs")
    for name in files:
        lines = newer((root / name).read_text(encoding="utf-8"))
        wrong += [f"{name}:{line}: a `let` in a chain or in a guard is newer than Rust {said['tools/Cargo.toml']}" for line in lines]
    for line in wrong:
        print(f"CHECK FAILED: {line}")
    print(f"{len(files)} files of Rust {said['tools/Cargo.toml']}")
    sys.exit(bool(wrong) or not files)


main()

#!/usr/bin/env python3
"""Each function, variable and file that cmake/order.ld names is in the sources, once in the list: order.py SOURCE-ROOT

The linker takes a name that is gone for one that this build does not have, and says nothing."""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# The compiler's own: constants and zeroes of vector instructions, beginnings and ends of programs, and all others.
OF_COMPILER = re.compile(r"^(cst\*|startup(\.\*)?|exit(\.\*)?|str\*|\*str\*|\*)$")


def names(text):
    """The names behind `.text.`, `.rodata.` and `.bss.`, without the wildcard for what the compiler splits off."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name in re.findall(r"(?<=[ (])\.(?:text|rodata|bss)\.([\w.*]+)", text):
        if not OF_COMPILER.match(name) and name not in ("first", "last"):
            yield name


def missing(text, code, files):
    """Of the names in `text` those that are no word of `code`, or are there twice; `files` are paths."""
    listed = list(names(text))
    plain = [n for n in listed if not n.endswith(".*")]
    gone = {n for n in (m.removesuffix(".*") for m in listed) if n not in code}
    twice = {n for n, times in collections.Counter(plain).items() if times > 1}
    patterns = re.findall(r"\*([\w/]+)(\*?)\.c\.o\(", text)
    lost = {p for p, star in patterns if not any(f.endswith(f"{p}.c") or (star and f"{p}" in f) for f in files)}
    return gone | twice | lost


def main():
    text = (ROOT / "cmake/order.ld").read_text(encoding="utf-8")
    paths = sorted((ROOT / "src").rglob("*.c"))
    code = {word for p in paths for word in re.findall(r"\w+", p.read_text(encoding="utf-8"))}
    files = [str(p) for p in paths]
    if len(list(names(text))) < 100:
        sys.exit("CHECK FAILED: the list was not understood")
    for planted in (text.replace(".text.fh_refill ", ".text.fh_refil "), text.replace(".text.malloc ", ".text.malloc .text.free "),
                    text.replace("api/options.c.o", "api/option.c.o")):
        if not missing(planted, code, files):
            sys.exit("CHECK FAILED: a fault that was planted is not found")
    bad = missing(text, code, files)
    for name in sorted(bad):
        print(f"cmake/order.ld: {name} is not in the sources, or is there twice")
    sys.exit(1 if bad else 0)


main()

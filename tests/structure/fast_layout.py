#!/usr/bin/env python3
"""Has freehold/fast.h another layout word wherever it does another thing? fast_layout.py SOURCE-ROOT

What the header does inline is compiled into programs, and must be what the library does. tests/fast/layout.c compares its numbers
with the library's. So a change of the library's layout changes the header. Here the header's code, without comments,
white space and what is said of warnings, is compared with the sum that tests/structure/fast_layout.txt has for its layout. A sum is never changed there:
other code gets another number, in the header and in the names of src/cache/fast.c, and a line of its own.

Before that mistakes are planted, and have to be found."""

import hashlib
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
# Which warnings a compiler gives: no code.
WARNINGS = re.compile(r"#if defined\(__cplusplus\) && defined\(__GNUC__\)\n(?:#pragma GCC diagnostic [^\n]*\n)+#endif\n")
CALLS = "src/cache/fast.c"


def begin_of_code(header):
    """From the layout's number to the C++ part: what is before are macros that choose, and their defaults."""
    code = WARNINGS.sub("", COMMENT.sub("", header))
    return code[code.index("#define FH_FAST_INLINE") : code.index("#ifdef __cplusplus\n#include")]


def total(header):
    return hashlib.sha256(re.sub(r"\s+", "", begin_of_code(header)).encode()).hexdigest()[:16]


def problems(header, calls, record):
    number = re.search(r"^#define FH_FAST_LAYOUT (\d+)$", header, re.M)[1]
    known = dict(line.split() for line in record.splitlines() if line and line[0] != "#")
    if number not in known:
        yield f"layout {number} is not in the record; its sum is {total(header)}"
    elif known[number] != total(header):
        yield f"fast.h does another thing ({total(header)}) under the number {number} ({known[number]}): it needs a new one"
    for where, text in (("fast.h", header), (CALLS, calls)):
        for name in sorted(set(re.findall(r"\bfh_fast_\d+_\w+", text))):
            if not name.startswith(f"fh_fast_{number}_"):
                yield f"{where}: {name} is of another layout than {number}"


def main():
    root = pathlib.Path(sys.argv[1])
    header = (root / "include/freehold/fast.h").read_text(encoding="utf-8")
    calls = (root / CALLS).read_text(encoding="utf-8")
    record = (root / "tests/structure/fast_layout.txt").read_text(encoding="utf-8")
    number = re.search(r"^#define FH_FAST_LAYOUT (\d+)$", header, re.M)[1]
    plants = {
        "another number in the code": (header.replace("FH_FAST_PLACES 7", "FH_FAST_PLACES 8"), calls),
        "another instruction": (header.replace("bin->top--", "bin->top -= 2"), calls),
        "a number without a record": (header.replace(f"FH_FAST_LAYOUT {number}", "FH_FAST_LAYOUT 99"), calls),
        "calls of another layout": (header, calls.replace(f"fh_fast_{number}_", "fh_fast_99_")),
    }
    missed = [name for name, (h, c) in plants.items() if not list(problems(h, c, record))]
    spaced = header.replace("bin->top--;", "bin->top--; /* said */ ")
    if list(problems(spaced, calls, record)) != list(problems(header, calls, record)):
        missed.append("a comment changes the sum")
    quieter = WARNINGS.sub("", header)
    if quieter == header or list(problems(quieter, calls, record)) != list(problems(header, calls, record)):
        missed.append("what is said of warnings changes the sum")
    found = list(problems(header, calls, record)) + [f"not found: {name}" for name in missed]
    for problem in found:
        print(problem)
    print(f"{len(plants)} plants, {len(found)} problems")
    sys.exit(1 if found else 0)


main()

#!/usr/bin/env python3
"""Have the libraries still the names, versions and types that programs were linked with?

    abi.py ABI.TXT LIBFREEHOLD.SO LIBFREEHOLD-EMBED.SO INCLUDE CC WORK

Then it changes one thing of the record at a time: each of these must be found. And a program that was linked with the C
library alone must get malloc from the drop-in when that is preloaded, whatever versions the names have."""

import os
import re
import subprocess
import sys

PRELOADED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <freehold/freehold.h>
int main(void) {
    struct fh_mallinfo2 (*info)(void) = (struct fh_mallinfo2(*)(void))dlsym(RTLD_DEFAULT, "fh_mallinfo2");
    void *(*versioned)(size_t) = (void *(*)(size_t))dlvsym(RTLD_DEFAULT, "fh_malloc", "FREEHOLD_0.1");
    if (!info || !versioned) return 2;
    size_t before = info().hblkhd;
    void *volatile direct = malloc(3000000); /* malloc@GLIBC_2.2.5 */
    if (info().hblkhd < before + 3000000) return 3;
    void *text = strndup(memset(direct, 'x', 3000000), 3000000); /* the C library's own call */
    return info().hblkhd < before + 6000000 ? 4 : text == direct;
}
"""


def read(path):
    """The record as a list of lines, each a list of words; the type of a call is one word."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split(None, 3) if line.startswith("call") else line.split() for line in file if line.strip() and line[0] != "#"]
    return [[word.strip() for word in line] for line in lines]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library):
    """Name to version of everything that the library shows; "" is none."""
    found = {}
    for line in output("readelf", "-W", "--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) == 8 and words[3] in ("FUNC", "OBJECT", "IFUNC", "TLS") and words[6] not in ("UND", "ABS"):
            name, _, version = words[7].partition("@")
            found[name] = version.lstrip("@")
    return found


def soname(library):
    return re.search(r"\(SONAME\).*\[(.+)\]", output("readelf", "-dW", library))[1]


def check_symbols(record, shown):
    for kind, library in shown.items():
        wanted = {line[1]: line[2] for line in record if line[0] == "call"}
        if kind == "freehold":
            wanted.update({line[1]: "" for line in record if line[0] == "over"})
        for name in sorted(wanted.keys() | library.keys()):
            if name not in library:
                yield f"{kind}: {name} is gone"
            elif name not in wanted:
                yield f"{kind}: {name} is not recorded"
            elif wanted[name] != library[name]:
                yield f"{kind}: {name} has version '{library[name]}', not '{wanted[name]}'"


def check_types(record, include, compiler, work):
    """One assertion for each line; the compiler says which do not hold."""
    lines = ["#include <freehold/freehold.h>", "#include <freehold/defer.h>", "#include <freehold/defrag.h>",
             "#include <freehold/heap.h>", "#include <freehold/pool.h>"]
    for line in record:
        if line[0] == "call":
            pointer = re.sub(r"^(.*?) ?\(", r"\1 (*)(", line[3], count=1)
            condition = f"__builtin_types_compatible_p(__typeof__(&{line[1]}), {pointer})"
            lines.append(f'_Static_assert({condition}, "{line[1]} is not: {line[3]}");')
        elif line[0] == "type":
            lines.append(f'_Static_assert(sizeof(struct {line[1]}) == {line[2]}, "struct {line[1]} has another size");')
            for member, offset in (word.split("=") for word in line[3:]):
                lines.append(f"_Static_assert(offsetof(struct {line[1]}, {member}) == {offset}, "
                             f'"{line[1]}.{member} is elsewhere");')
    path = os.path.join(work, "types.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    said = subprocess.run([compiler, "-fsyntax-only", f"-I{include}", path], capture_output=True, text=True, check=False)
    if said.returncode:
        yield from (line for line in said.stderr.splitlines() if "error" in line)


def changed(record, kind, edit):
    """The record with the first line of its kind edited, or left out where the edit returns None."""
    at = next(i for i, line in enumerate(record) if line[0] == kind)
    new = edit(list(record[at]))
    return record[:at] + ([new] if new else []) + record[at + 1 :]


def plants(record):
    """What each change of the libraries would be, seen from the record."""
    yield "a call that is gone", record + [["call", "fh_gone", "FREEHOLD_0.1", "void (void)"]]
    yield "a call that nobody recorded", changed(record, "call", lambda line: None)
    yield "another version", changed(record, "call", lambda line: line[:2] + ["FREEHOLD_0.0"] + line[3:])
    yield "another result", changed(record, "call", lambda line: line[:3] + ["char *(size_t)"])
    yield "another argument", changed(record, "call", lambda line: line[:3] + ["void *(long)"])
    yield "another size", changed(record, "type", lambda line: line[:2] + ["48"] + line[3:])
    yield "members that changed places", changed(record, "type", lambda line: line[:3] + ["ordblks=0"])
    yield "a name of the C library's that is gone", record + [["over", "gone"]]
    yield "a name of the C library's that came", changed(record, "over", lambda line: None)
    yield "another SONAME", changed(record, "soname", lambda line: line[:2] + ["libfreehold.so.1"])


def main():
    path, dropin, embed, include, compiler, work = sys.argv[1:7]
    os.makedirs(work, exist_ok=True)
    record = read(path)
    libraries = {"freehold": dropin, "embed": embed}
    shown = {kind: symbols(library) for kind, library in libraries.items()}
    names = {kind: soname(library) for kind, library in libraries.items()}

    def check(lines):
        problems = list(check_symbols(lines, shown)) + list(check_types(lines, include, compiler, work))
        return problems + [f"{line[1]}: the SONAME is {names[line[1]]}" for line in lines
                           if line[0] == "soname" and names[line[1]] != line[2]]

    problems = check(record)
    for name, lines in plants(record):
        if not check(lines):
            problems.append(f"not found: {name}")
    program = os.path.join(work, "preloaded")
    with open(f"{program}.c", "w", encoding="utf-8") as file:
        file.write(PRELOADED)
    subprocess.run([compiler, "-O1", "-fno-builtin", f"-I{include}", f"{program}.c", "-o", program, "-ldl"], check=True)
    status = subprocess.run([program], env={**os.environ, "LD_PRELOAD": dropin}, check=False).returncode
    if status:
        problems.append(f"preloaded, malloc is the C library's: {status}")
    for problem in problems:
        print(problem)
    print(f"{len(record)} lines of the record, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()

#!/usr/bin/env python3
"""The whole library as one file of C:  amalgamate.py DIR   writes DIR/freehold.c and DIR/freehold.h.

    cc -O2 -c freehold.c                        the fh_ functions, to be linked into a program of its own
    cc -O2 -DFREEHOLD_OVERRIDE -c freehold.c    malloc and its family too

Every header of the library is written once, then every source. Two sources may use one name for things of their own: such a
name gets the file's name behind it. Macros of a source end with it. Nothing else of the text changes, except what the build
otherwise says with flags: what is hidden, and that memory may be seen as any type."""

import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Each layer needs only those before it; src/README.md says so and a test checks it.
LAYERS = ["base", "system", "store", "cache", "reclaim", "check", "heap", "observe", "misuse", "api"]
# What stands in for the C library's own functions, and comes last.
OVERRIDE = ["src/api/override.c", "src/api/override_token.c", "src/system/linux_override_prctl.c"]
# What makes no sense here: operator new needs C++, and the others are of libraries that are loaded.
LEFT_OUT = ["src/api/new.c", "src/api/new_token.c", "src/api/global.c", "src/system/linux_global.c", "src/system/linux_loaded.c",
            "src/system/linux_loaded_again.c", "src/system/linux_loaded_sanitizer.c"]

# What becomes freehold.h, in this order.
PUBLIC = ["freehold/freehold.h", "freehold/defer.h", "freehold/defrag.h", "freehold/heap.h",
          "freehold/pool.h"]
INCLUDE_PUBLIC = re.compile(r'^#include "freehold/.*\n\n?', re.M)

INCLUDE = re.compile(r'^#\s*include\s+([<"])([^>"]+)[>"].*$', re.M)
DEFINE = re.compile(r"^#\s*define (\w+)", re.M)
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
# A name of a file's own, by how the formatter lays out a definition: at the beginning of a line.
OWN_NAMES = [
    re.compile(r"^(?:[A-Z_]+ |__attribute__\(\(.*?\)\) )*static (?:_Alignas\(\w+\) )?[^=;(]*?(\w+)(?:\[[^\]]*\])*\s*(?:[=;(]|__attribute__)", re.M),
    re.compile(r"^static [^=;(]*\(\*(\w+)\)", re.M),
    re.compile(r"^\} (\w+);", re.M),
    re.compile(r"^typedef [^;{(]*?(\w+);", re.M),
    re.compile(r"^typedef [^;{]*\(\*(\w+)\)", re.M),
    re.compile(r"^(?:typedef )?(?:struct|union|enum) (\w+) \{", re.M),
]
ENUMERATION = re.compile(r"^(?:typedef )?enum[^{;]*\{([^}]*)\}", re.M)
STRUCTURE = re.compile(r"\b(struct|union)(\s+\w+)?\s*\{")
# Its own memory and the program's are seen as words, records and blocks in turn: -fno-strict-aliasing.
RECORD = re.compile(r"^(typedef )?(struct|union)(?= (?:\w+ )?\{)", re.M)
# A source declares for itself only what is outside of the library.
OUTSIDE = re.compile(r"^extern [^;]*;\n(?:extern [^;]*;\n)*", re.M)
ROOM = "/* ── {} ── */\n"

NOTICE = """/* Freehold {version}: a memory allocator for programs with many threads, as one file. Made by scripts/amalgamate.py from
 * the sources, which are where to read and to change it.
 *
 *   cc -O2 -c freehold.c                        the fh_ functions of freehold.h
 *   cc -O2 -DFREEHOLD_OVERRIDE -c freehold.c    malloc and its family too
 *
 * Linux, gcc or clang, C11 or later. The program is linked with -pthread. Licence: MIT or Apache-2.0, as you choose.
{licence} */
"""
# Declared before everything else. What is not marked as public stays inside the object that this file becomes.
BEGIN = """
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "freehold.h"

{includes}

#pragma GCC visibility push(hidden)
/* What a header has for others; clang takes it for this file's own. */
#pragma GCC diagnostic ignored "-Wunused-function"
"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def without_text(code):
    """The code with comments and strings blanked, every other character where it was."""
    return COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def sources():
    for layer in LAYERS:
        for folder, folders, names in os.walk(os.path.join(ROOT, "src", layer)):
            folders.sort()
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                other = re.match(r"(windows|darwin)", name)
                if name.endswith(".c") and not other and path not in OVERRIDE + LEFT_OUT:
                    yield path


def enumerated(code):
    """The constants of all enumerations of a file."""
    for body in ENUMERATION.findall(code):
        for entry in body.split(","):
            name = re.match(r"\s*(\w+)", entry)
            if name:
                yield name[1]


def own_names(code):
    code = without_text(code)
    names = {m[1] for pattern in OWN_NAMES for m in pattern.finditer(code)}
    return names | set(enumerated(code))


def fields(code):
    """Where the bodies of structures are: their members are renamed nowhere, because headers' members are not."""
    for start in STRUCTURE.finditer(code):
        depth, at = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield start.end(), at


def rename(code, names, suffix):
    """The same code with another end for these names, except as members of structures."""
    blank = without_text(code)
    inside = [False] * len(code)
    for begin, end in fields(blank):
        inside[begin:end] = [True] * (end - begin)
    out, last = [], 0
    for m in re.finditer(r"[A-Za-z_]\w*", blank):
        before, after = blank[: m.start()].rstrip(), blank[m.end() :].lstrip()
        if m[0] not in names or before.endswith((".", "->")):
            continue
        # In the body of a structure a member's name ends its declaration, and a type's does not.
        if inside[m.start()] and after[:1] in tuple(";,[:"):
            continue
        out += [code[last : m.end()], suffix]
        last = m.end()
    return "".join(out) + code[last:]


class Amalgamation:
    def __init__(self):
        self.system = set()
        self.written = set()
        self.headers = []

    def find(self, name, folder):
        for path in (os.path.join(folder, name), os.path.join("src", name)):
            if os.path.exists(os.path.join(ROOT, path)):
                return os.path.normpath(path)
        raise SystemExit(f"amalgamate: no {name}")

    def body(self, path):
        """A file without its includes: those of the system are noted, headers of ours come before it."""

        def one(m):
            if m[1] == "<":
                self.system.add(m[2])
                return ""
            if m[2] in PUBLIC:
                return ""
            found = self.find(m[2], os.path.dirname(path))
            if not found.endswith(".h"):
                # A table, which is read again for each use of it.
                return self.body(found)
            self.header(found)
            return ""

        text = INCLUDE.sub(one, read(path)).strip() + "\n"
        return RECORD.sub(r"\1\2 __attribute__((may_alias))", text)

    def header(self, path):
        if path in self.written:
            return
        self.written.add(path)
        text = self.body(path)
        self.headers.append(ROOM.format(path) + text)

    def source(self, path, clashing):
        text = self.body(path)
        base = os.path.splitext(os.path.basename(path))[0]
        folder = os.path.basename(os.path.dirname(path))
        text = rename(text, clashing & own_names(text), f"_of_{folder}_{base}")
        text = OUTSIDE.sub(lambda m: f"#pragma GCC visibility push(default)\n{m[0]}#pragma GCC visibility pop\n", text)
        # What is defined only where the system does not is the system's.
        ends = [f"#undef {name}\n" for name in dict.fromkeys(DEFINE.findall(text)) if f"#ifndef {name}\n" not in text]
        return ROOM.format(path) + text + "".join(ends)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/amalgamate.py DIR")
    target = sys.argv[1]
    paths = list(sources())
    owners = collections.Counter(name for path in paths + OVERRIDE for name in own_names(read(path)))
    clashing = {name for name, files in owners.items() if files > 1}
    whole = Amalgamation()
    rooms = [whole.source(path, clashing) for path in paths]
    override = [whole.source(path, clashing) for path in OVERRIDE]
    public = "\n".join(INCLUDE_PUBLIC.sub("", read(f"include/{name}")) for name in PUBLIC)
    version = re.search(r'define FH_VERSION "(.*)"', public)[1]
    licence = "".join(f" * {line}".rstrip() + "\n" for line in read("LICENSE-MIT").strip().split("\n"))
    text = "\n".join(
        [NOTICE.format(version=version, licence=" *\n" + licence.rstrip("\n") + "\n"),
         BEGIN.format(includes="\n".join(f"#include <{name}>" for name in sorted(whole.system)))]
        + whole.headers + rooms + ["#ifdef FREEHOLD_OVERRIDE\n"] + override + ["#endif\n\n#pragma GCC visibility pop\n"])
    try:
        os.makedirs(target, exist_ok=True)
        for name, content in (("freehold.c", text), ("freehold.h", public)):
            with open(os.path.join(target, name), "w", encoding="utf-8") as file:
                file.write(content)
    except OSError as error:
        sys.exit(f"amalgamate: cannot write to {target}: {error.strerror}")


main()

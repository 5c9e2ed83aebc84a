#!/usr/bin/env python3
"""The layer rule of src/README.md, checked: layers.py SOURCE-ROOT

1. A file of a folder includes only from its own folder and from those below it.
2. Only src/system asks the kernel or the C library for memory, descriptors, time or threads.
3. No circle of includes, not even within a folder.
4. A file is no longer than 600 lines."""

import os
import re
import sys

# From the lowest to the highest. `hooks.h` in base is how a lower layer reaches a higher one.
LAYERS = ["base", "system", "store", "cache", "heap", "see", "api"]

# What only src/system may call. A name counts when it is followed by an opening parenthesis.
KERNEL_CALLS = """mmap mmap64 munmap mremap madvise mprotect mincore sbrk brk syscall memfd_create process_madvise
open openat read write close dup fcntl getauxval getenv secure_getenv clock_gettime gettimeofday sysconf getpagesize
sched_yield sched_getcpu nanosleep usleep pthread_\\w+ abort raise kill signal sigaction atexit fork""".split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(KERNEL_CALLS) + r")\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
KERNEL_HEADERS = re.compile(r"^(sys/|linux/|asm/|unistd\.h|fcntl\.h|pthread\.h|sched\.h|signal\.h|time\.h)")

problems = []


def without_comments(text):
    """Comments and strings replaced by blanks of the same number of lines, so that line numbers stay right."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_includes(path, layer, text):
    """Returns what the file includes of ours."""
    ours = []
    for found in INCLUDE.finditer(text):
        where = f"{path}:{line_of(text, found.start())}"
        name = found[2]
        top = name.split("/")[0]
        if found[1] == '"' and top in LAYERS:
            ours.append(name)
            if LAYERS.index(top) > LAYERS.index(layer):
                problems.append(f"{where}: {layer} includes {name}, which lies above it")
        elif name.startswith("freehold/"):
            if layer not in ("see", "api"):
                problems.append(f"{where}: {layer} includes the public {name}; only see and api speak to the world")
        elif found[1] == '"':
            problems.append(f"{where}: {name} is not named by its folder")
        elif KERNEL_HEADERS.match(name) and layer != "system":
            problems.append(f"{where}: {layer} includes <{name}>; only system speaks to the kernel")
    return ours


def check_calls(path, layer, text):
    if layer == "system":
        return
    plain = without_comments(text)
    for found in CALL.finditer(plain):
        # A local variable may have the name of a function: what the loader was asked for, for instance.
        if re.search(r"\bauto\s+" + found[1] + r"\s*=", plain):
            continue
        problems.append(f"{path}:{line_of(plain, found.start())}: {layer} calls {found[1]}(); only system may")


def find_circles(graph):
    done = set()

    def visit(node, way):
        if node in way:
            problems.append("a circle of includes: " + " -> ".join(way[way.index(node):] + [node]))
            return
        if node not in done:
            for goal in graph.get(node, []):
                visit(goal, way + [node])
            done.add(node)

    for node in sorted(graph):
        visit(node, [])


def main():
    source = os.path.join(sys.argv[1], "src")
    graph, files = {}, 0
    for folder in sorted(os.listdir(source)):
        if not os.path.isdir(os.path.join(source, folder)):
            continue
        if folder not in LAYERS:
            problems.append(f"src/{folder}: a folder that no layer is named after")
            continue
        for name in sorted(os.listdir(os.path.join(source, folder))):
            if not name.endswith((".c", ".h", ".cc")):
                continue
            files += 1
            path = f"src/{folder}/{name}"
            text = open(os.path.join(source, folder, name), encoding="utf-8").read()
            graph[f"{folder}/{name}"] = check_includes(path, folder, text)
            check_calls(path, folder, text)
            if text.count("\n") > 600:
                problems.append(f"{path}: {text.count(chr(10))} lines; 600 are the most")
    find_circles(graph)
    if files < 20:
        problems.append(f"only {files} files found under {source}: nothing was checked")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} violations of the layer rule")
    sys.exit(1 if problems else 0)


main()

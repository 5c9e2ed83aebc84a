#!/usr/bin/env python3
"""The rules of src/README.md, checked on the modules of the library: layers.py SOURCE-ROOT [--self-test]

A module is X.c and X.h together: one node. An arrow is an include of one module by another.

1. A module includes only from its own folder and from the layers below. Upwards there is base/hooks.h alone.
2. No cycle of modules anywhere, not even inside one folder.
3. Only src/system calls the kernel or the C library for memory, descriptors, time or threads.
4. Each function of base/hooks.h is defined once, in the layer that the header names, and called from below it.
5. A file has 600 lines at most.
6. A folder inside a layer includes of that layer only itself and what ROOMS lists.
7. The files of src/system share a header, so there an arrow is also a call: no cycle of calls between its files.

It prints the graph: each layer with its modules, and what each module includes. With --self-test it copies the
sources, plants one violation of each kind, and fails unless every one is found."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

# From the lowest to the highest.
LAYERS = ["base", "system", "store", "cache", "reclaim", "check", "heap", "observe", "misuse", "api"]

# Folders inside a layer, and what they may include of the rest of that layer.
ROOMS = {
    "observe/unwind": [],
    "observe/reach": ["observe/profile", "observe/profile_words", "observe/class_use"],
}

# What only src/system may call. A name counts when it is followed by an opening parenthesis.
KERNEL_CALLS = """mmap mmap64 munmap mremap madvise mprotect mincore sbrk brk syscall memfd_create process_madvise
open openat read write close dup fcntl getauxval getenv secure_getenv clock_gettime gettimeofday sysconf getpagesize
sched_yield sched_getcpu nanosleep usleep pthread_\\w+ abort raise kill signal sigaction atexit fork""".split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(KERNEL_CALLS) + r")\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
KERNEL_HEADERS = re.compile(r"^(sys/|linux/|asm/|unistd\.h|fcntl\.h|pthread\.h|sched\.h|signal\.h|time\.h)")
HOOK = re.compile(r"^[a-z][\w ]*?\b\*?(fh_hook_\w+)\(", re.M)
HOOK_HOME = re.compile(r"^/\* ── Defined in ([\w./]+)", re.M)

problems = []


@functools.cache
def without_comments(text):
    """Comments and strings replaced by blanks of the same number of lines, so that line numbers stay right."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def module_of(name):
    return os.path.splitext(name)[0]


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
                problems.append(f"{where}: {layer} includes {name}, which is above it")
        elif name.startswith("freehold/"):
            if layer not in ("observe", "api"):
                problems.append(f"{where}: {layer} includes the public {name}; only observe and api know it")
        elif found[1] == '"':
            problems.append(f"{where}: {name} is not named by its folder")
        elif KERNEL_HEADERS.match(name) and layer != "system":
            problems.append(f"{where}: {layer} includes <{name}>; only system calls the kernel")
    return ours


def check_room(name, included):
    room = os.path.dirname(name)
    if "/" not in room:
        return
    if room not in ROOMS:
        problems.append(f"src/{name}: a folder inside a layer that ROOMS does not list")
        return
    for other in sorted(included):
        same_layer = other.split("/")[0] == room.split("/")[0]
        if same_layer and os.path.dirname(other) != room and other not in ROOMS[room]:
            problems.append(f"src/{name}: {room} includes {other}, which is outside of its room")


def check_calls(path, layer, text):
    if layer == "system":
        return
    plain = without_comments(text)
    for found in CALL.finditer(plain):
        # A local variable may have the name of a function: what the loader was asked for, for instance.
        if re.search(r"\bauto\s+" + found[1] + r"\s*=", plain):
            continue
        problems.append(f"{path}:{line_of(plain, found.start())}: {layer} calls {found[1]}(); only system may")


def read_sources(source):
    """name below src → text, for each file of the library."""
    texts = {}
    for folder, _, names in sorted(os.walk(source)):
        below = os.path.relpath(folder, source)
        layer = below.split(os.sep)[0]
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".cc")):
                continue
            if layer not in LAYERS:
                problems.append(f"src/{below}: a folder that no layer is named after")
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                texts[f"{below}/{name}"] = file.read()
    return texts


def graph_of(texts):
    """module → the modules that it includes."""
    graph = {}
    for name, text in texts.items():
        layer, path = name.split("/")[0], f"src/{name}"
        included = {module_of(other) for other in check_includes(path, layer, text)}
        graph.setdefault(module_of(name), set()).update(included - {module_of(name)})
        check_room(name, included)
        check_calls(path, layer, text)
        if text.count("\n") > 600:
            problems.append(f"{path}: {text.count(chr(10))} lines; 600 are the most")
    return graph


def find_cycles(graph, kind="modules"):
    """Reports each cycle that a walk along the arrows meets, once."""
    done = set()

    def visit(node, way):
        if node in way:
            problems.append(f"a cycle of {kind}: " + " -> ".join(way[way.index(node):] + [node]))
            return
        if node not in done:
            for goal in sorted(graph.get(node, ())):
                visit(goal, way + [node])
            done.add(node)

    for node in sorted(graph):
        visit(node, [])


def defines(text, function):
    return function in text and re.search(r"^[a-z][\w *]*\b" + function + r"\([^;{]*\)\s*\{", text, re.M)


def check_hooks(texts):
    header = texts.get("base/hooks.h", "")
    homes = [(found.start(), found[1]) for found in HOOK_HOME.finditer(header)]
    count = 0
    for found in HOOK.finditer(header):
        count += 1
        function = found[1]
        home = [name for start, name in homes if start < found.start()][-1:]
        places = [name for name, text in texts.items() if name.endswith((".c", ".cc")) and defines(text, function)]
        if places != home:
            problems.append(f"src/base/hooks.h: {function} should be defined in {home}, and is in {places}")
            continue
        layer = LAYERS.index(home[0].split("/")[0])
        for name, text in texts.items():
            called = function in text and re.search(r"\b" + function + r"\s*\(", without_comments(text))
            if called and LAYERS.index(name.split("/")[0]) > layer and name != "base/hooks.h":
                problems.append(f"src/{name}: calls the hook {function} from above; it needs none")
    if count < 5:
        problems.append(f"only {count} hooks found in src/base/hooks.h: nothing was checked")


def check_system_calls(texts):
    """Functions of system.h and inspect.h may be defined in any file of the port, and no include tells in which."""
    files = {name: without_comments(text) for name, text in texts.items() if re.match(r"system/.*\.c$", name)}
    homes = {}
    for name, text in files.items():
        for found in re.finditer(r"^(?!static\b)[a-z][\w *]*?\b(fh_\w+)\([^;{]*\)\s*\{", text, re.M):
            homes[found[1]] = module_of(name)
    if len(homes) < 37:
        problems.append(f"only {len(homes)} functions found in src/system: their calls were not checked")
    calls = {module_of(name): set() for name in files}
    for name, text in files.items():
        called = set(re.findall(r"\b(fh_\w+)\s*\(", text))
        calls[module_of(name)] |= {homes[function] for function in called & homes.keys()} - {module_of(name)}
    find_cycles(calls, "calls")


def print_graph(graph):
    for layer in reversed(LAYERS):
        modules = sorted(module for module in graph if module.split("/")[0] == layer)
        if not modules:
            continue
        print(f"{layer}/")
        for module in modules:
            goals = sorted(goal for goal in graph[module] if goal.split("/")[0] != "base")
            print(f"    {module[len(layer) + 1:]:<22} -> {' '.join(goals) or '(base alone)'}")


def check(root):
    texts = read_sources(os.path.join(root, "src"))
    graph = graph_of(texts)
    print_graph(graph)
    find_cycles(graph)
    check_system_calls(texts)
    check_hooks(texts)
    if len(texts) < 20:
        problems.append(f"only {len(texts)} files found: nothing was checked")
    for problem in problems:
        print(problem)
    arrows = sum(len(goals) for goals in graph.values())
    print(f"{len(graph)} modules of {len(texts)} files, {arrows} arrows, {len(problems)} violations")
    return not problems


# What is planted, in which file, and the words by which it must be found.
PLANTED = [
    ("store/window.h", '#include "store/slab.h"\n', "a cycle of modules"),
    ("system/linux_read.c", "\nvoid fh_planted(void) {\n    fh_group_processors();\n}\n", "a cycle of calls"),
    ("store/hints.c", '#include "cache/cache.h"\n', "which is above it"),
    ("store/depot.c", "#include <sys/mman.h>\n", "only system calls the kernel"),
    ("store/depot.c", "\nvoid planted(void);\nvoid planted(void) {\n    abort();\n}\n", "only system may"),
    ("cache/cache.h", '#include "freehold/freehold.h"\n', "the public"),
    ("base/text.c", "\n" * 600, "600 are the most"),
    ("observe/unwind/rule.c", '#include "observe/profile.h"\n', "outside of its room"),
    ("store/slab.c", "\nvoid fh_hook_start(void) {\n}\n", "should be defined in"),
]


def self_test(root):
    found_all = True
    for name, text, words in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(root, "src"), os.path.join(folder, "src"))
            with open(os.path.join(folder, "src", name), "a", encoding="utf-8") as file:
                file.write(text)
            run = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True, check=False)
            found = run.returncode != 0 and words in run.stdout
            print(f"{'found' if found else 'MISSED'}: {words!r} planted in src/{name}")
            found_all = found_all and found
    return found_all


def main():
    passed = check(sys.argv[1])
    if "--self-test" in sys.argv[2:]:
        passed = self_test(sys.argv[1]) and passed
    sys.exit(0 if passed else 1)


main()

#!/usr/bin/env python3
"""What memcheck and AddressSanitizer see of Freehold's blocks.

watched.py memcheck|sanitizer ROOT WORK-FOLDER LIBFREEHOLD-EMBED.A LIBFREEHOLD-EMBED.SO LIBFREEHOLD.A

Builds watched.c in the ways in which a program gets the library, and runs each of its mistakes in a process of its own. Under
memcheck these are children of one program, because a program takes a second to begin there. The tool must name the mistake and
the function that it is in, and say nothing else; of the cases that are none it must say nothing.
With memcheck a block must be described as one of its size, and the place where it was allocated must be in the report."""

import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402
import valgrind  # noqa: E402

# case → what memcheck says, the function, how the address is described; what AddressSanitizer says (None: nothing), the function
READ, WRITE, CHOICE = "Invalid read of size 1", "Invalid write of size 1", "Conditional jump or move depends on uninit"
POISON, NOTHING = "AddressSanitizer: use-after-poison", None
MISTAKES = {
    "read_freed_small": (READ, "reads", "20 bytes inside a block of size 40 free'd", POISON),
    "read_freed_run": (READ, "reads", "50,000 bytes inside a block of size 100,000 free'd", POISON),
    "read_freed_large": (READ, "reads", "bytes inside a block of size 3,145,728 free'd", POISON),
    "read_freed_aligned": (READ, "reads", "0 bytes inside a block of size 100 free'd", POISON),
    "read_moved": (READ, "reads", "5 bytes inside a block of size 100 free'd", POISON),
    "write_freed": (WRITE, "writes", "8 bytes inside a block of size 40 free'd", POISON),
    "overrun_24": (WRITE, "writes", "0 bytes after a block of size 24 alloc'd", POISON),
    "overrun_64": (WRITE, "writes", "0 bytes after a block of size 64 alloc'd", POISON),
    "overrun_1000": (WRITE, "writes", "0 bytes after a block of size 1,000 alloc'd", POISON),
    "overrun_page": (WRITE, "writes", "0 bytes after a block of size 100,000 alloc'd", POISON),
    "overrun_read": (READ, "reads", "0 bytes after a block of size 48 alloc'd", POISON),
    "overrun_calloc": (READ, "reads", "0 bytes after a block of size 25 alloc'd", POISON),
    "overrun_aligned": (WRITE, "writes", "0 bytes after a block of size 64 alloc'd", POISON),
    "overrun_shrunk": (WRITE, "writes", "0 bytes after a block of size 80 alloc'd", POISON),
    "underrun": (READ, "reads", "1 bytes before a block of size 40 alloc'd", POISON),
    "undefined": (CHOICE, "decides", "", NOTHING),
    "undefined_grown": (CHOICE, "decides", "", NOTHING),
    "undefined_again": (CHOICE, "decides", "", NOTHING),
    "double_free": ("Invalid free()", "frees", "0 bytes inside a block of size 40 free'd", "double free"),
    "leak": ("1,234 bytes in 1 blocks are definitely lost", "allocates", "", NOTHING),
    "heap_read_freed": (READ, "reads", "20 bytes inside a block of size 40 free'd", POISON),
    "heap_read_reset": (READ, "reads", "20 bytes inside a block of size 500 free'd", POISON),
    "heap_overrun_32": (WRITE, "writes", "0 bytes after a block of size 32 alloc'd", POISON),
    "heap_overrun_1500": (WRITE, "writes", "0 bytes after a block of size 1,500 alloc'd", POISON),
    "heap_overrun_65536": (WRITE, "writes", "0 bytes after a block of size 65,536 alloc'd", POISON),
    "heap_overrun_shrunk": (WRITE, "writes", "0 bytes after a block of size 90 alloc'd", POISON),
    "heap_overrun_given": (WRITE, "writes", "0 bytes after a block of size 48 alloc'd", POISON),
    "heap_undefined": (CHOICE, "decides", "", NOTHING),
    "heap_undefined_large": (CHOICE, "decides", "", NOTHING),
    "heap_double_free": ("Invalid free()", "heap_double_free", "0 bytes inside a block of size 40 free'd", "double free"),
    "heap_leak": ("1,234 bytes in 1 blocks are definitely lost", "allocates_in_heap", "", NOTHING),
}
CLEAN = ["clean", "clean_threads", "clean_held", "clean_heaps"]

failures = []


def fail(text):
    failures.append(text)
    print("FAILED", text)


def build(work, root, name, compiler, *arguments):
    """The program's path, or None if it cannot be built here."""
    path = os.path.join(work, name)
    command = [compiler, "-g", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-I" + os.path.join(root, "include"),
               os.path.join(root, "tests/misuse/watched.c"), "-o", path, *arguments, "-lpthread"]
    if not shutil.which(compiler):
        skips.skip_part(f"no {compiler}")
        return None
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        skips.skip_part(f"{name} cannot be built: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        return None
    return path


# ── memcheck ──

def errors_of(text, sources):
    """The errors that are in the program or in the library. A static C library has some of its own."""
    text = re.sub(r"^==\d+== ?", "", "\n".join(line for line in text.splitlines() if line.startswith("==")), flags=re.M)
    found = []
    for error in re.split(r"\n\s*\n", text):
        frames = re.findall(r"^   (?:at|by) 0x\w+: (\S+) \(([^):]*)", error, flags=re.M)
        innermost = frames[0][1] if frames else ""
        if "possibly lost in loss record" in error:
            continue  # a thread's own table in the C library, to which an inner pointer leads
        leak = "definitely lost in loss record" in error
        if any(file == "watched.c" for _, file in frames) if leak else innermost in sources:
            found.append(error)
    return found


def memcheck(program, name, cases, sources, *options):
    """{case: (errors, all that was said)}, each case in a child of one program under Valgrind."""
    done = subprocess.run(["valgrind", "-q", "--leak-check=full", "--num-callers=24", *options, program, *cases],
                          capture_output=True, text=True, timeout=600)
    *parts, rest = re.split(r"^-- (\w+) ended with (-?\d+)\n", done.stderr, flags=re.M)
    said = dict(zip(parts[1::3], parts[0::3]))
    good = done.returncode == 0 and not errors_of(rest, sources) and done.stdout == "went on\n" * len(cases)
    if not good or list(said) != list(cases):
        fail(f"{name}: ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    for case, status in zip(parts[1::3], parts[2::3]):
        if status != "0":
            fail(f"{name} {case}: ended with {status}:\n{said[case]}")
    return {case: (errors_of(text, sources), text) for case, text in said.items()}


def memcheck_all(program, name, which, sources, *options):
    mistakes = dict(list(MISTAKES.items())[which])
    seen = memcheck(program, name, [*mistakes, "four", *CLEAN], sources, *options)
    for case in [case for case in mistakes if case in seen]:
        (what, function, where, _), (errors, text) = mistakes[case], seen[case]
        mine = len(errors) == 1 and what in errors[0] and where in errors[0] and f": {function} (watched.c" in errors[0]
        if not mine or (where and ": main (watched.c" not in errors[0].split(where)[1]):
            fail(f"{name} {case}: not one error \"{what}\" in {function}, \"{where}\":\n{text}")
    errors, text = seen.get("four", ([], ""))
    if [what in error for error, what in zip(errors, ["Invalid free()"] * 3 + [READ])] != [True] * 4 or len(errors) != 4:
        fail(f"{name} four: not three double frees and a read:\n{text}")
    for case in [case for case in CLEAN if case in seen]:
        errors, text = seen[case]
        if errors or "freehold:" in text:
            fail(f"{name} {case}: it is no mistake:\n{text}")


def check_memcheck(root, work, embed, embed_so, dropin):
    valgrind.need()
    sources = {"watched.c"} | {os.path.basename(path) for path in glob.glob(os.path.join(root, "src/**/*.[ch]"), recursive=True)}
    # How it is linked, which of the mistakes are tried (each in the first or the third, and some in the others), with what options.
    ways = [
        ("archive", ["-DT_EMBED", embed], slice(0, None, 2), []),
        ("shared", ["-DT_EMBED", embed_so, "-Wl,-rpath," + os.path.dirname(embed_so)], slice(1, None, 6), []),
        # malloc and its kin, where Valgrind cannot put its own in their place; and where it is told not to.
        ("static", ["-static", dropin, "-Wl,-u,malloc"], slice(1, None, 2), []),
        ("not_replaced", [dropin, "-Wl,-u,malloc"], slice(0, None, 6), ["--soname-synonyms=somalloc=nouserintercepts"]),
    ]
    for name, arguments, which, options in ways:
        program = build(work, root, name, "cc", *arguments)
        if program:
            memcheck_all(program, name, which, sources, *options)
            print(name, "looked at")


# ── AddressSanitizer ──

def sanitizer(program, case, **environment):
    done = subprocess.run([program, case], capture_output=True, text=True, timeout=600, env=dict(os.environ, **environment))
    return done.returncode, done.stdout + done.stderr


def sanitizer_all(program, name):
    for case, (_, function, _, what) in MISTAKES.items():
        code, text = sanitizer(program, case)
        if what == NOTHING:
            if code or "ERROR" in text or "freehold:" in text:
                fail(f"{name} {case}: something is said of what cannot be seen:\n{text}")
        elif what == POISON:
            if code == 0 or what not in text or not re.search(rf"#0 0x\w+ in {function} ", text):
                fail(f"{name} {case}: not \"{what}\" in {function}:\n{text}")
        elif code == 0 or what not in text:
            fail(f"{name} {case}: not \"{what}\":\n{text}")
    for case in CLEAN:
        for options in "", "check=1", "check=2":
            code, text = sanitizer(program, case, FREEHOLD=options)
            if code or text != "went on\n":
                fail(f"{name} {case} FREEHOLD={options}: it is no mistake:\n{text}")
    # Who wants to observe the program does not want the tool's way of looking at it.
    code, text = sanitizer(program, "write_freed", FREEHOLD="guard=1000000")
    if code or "ERROR" in text:
        fail(f"{name}: the sanitizer is told although option guard is set:\n{text}")


def check_sanitizer(root, work, embed, embed_so, _):
    tried = 0
    for compiler in "gcc", "clang":
        for kind, library in ("archive", [embed]), ("shared", [embed_so, "-Wl,-rpath," + os.path.dirname(embed_so)]):
            program = build(work, root, f"{compiler}_{kind}", compiler, "-fsanitize=address", "-DT_EMBED", *library)
            if program:
                sanitizer_all(program, f"{compiler}_{kind}")
                print(compiler, kind, "looked at")
                tried += 1
    if not tried:
        skips.skip("no compiler with AddressSanitizer")


def main():
    mode, root, work, *libraries = sys.argv[1:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    {"memcheck": check_memcheck, "sanitizer": check_sanitizer}[mode](root, work, *map(os.path.realpath, libraries))
    print("ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

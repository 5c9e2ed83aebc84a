#!/usr/bin/env python3
"""What the shared libraries need from outside, and what they show to it: symbols.py LIBFREEHOLD.SO LIBFREEHOLD-EMBED.SO ALLOWED.TXT

An allocator that calls printf, or takes a mutex, or needs the C++ library, works until the day it is called from
where these are not ready. So every undefined symbol must be in allowed.txt, where its reason stands."""

import re
import subprocess
import sys

FAMILY = """malloc free calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc
malloc_usable_size free_sized free_aligned_sized cfree malloc_trim mallinfo mallinfo2 malloc_info malloc_stats
mallopt""".split()
# Passed on to the C library, after the allocator has noted what it must know of.
NOTED = ["prctl", "dlopen"]
PREFIXED = [f"fh_{name}" for name in FAMILY if name != "cfree"] + [
    "fh_option_set", "fh_version", "fh_thread_flush", "fh_stats_print", "fh_stats_json", "fh_stats_metrics", "fh_limit_set", "fh_verify",
    "fh_good_size", "fh_malloc_at_least", "fh_malloc_type", "fh_try_grow", "fh_malloc_batch", "fh_free_batch"]
NEW_AND_DELETE = """_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
_ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm
_ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t
_ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
__size_returning_new __size_returning_new_aligned __size_returning_new_hot_cold __size_returning_new_aligned_hot_cold""".split()
# What clang 22 calls instead, with the type of what is allocated: by a last argument, or by one of two names.
TOKENS = [f"__alloc_token_{fast}{name}" for fast in ("", "0_", "1_") for name in
          "malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc".split() +
          [new for new in NEW_AND_DELETE if not new.startswith("_Zd")]]
LIBRARIES = re.compile(r"(libc|libc\.musl-\w+|ld-linux.*|libpthread|libgcc_s)\.so.*")

problems = []


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def undefined(library):
    """(name, weak) of everything that the loader must find elsewhere."""
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        kind, name = line.split()[-2:]
        yield name.split("@")[0], kind in "wv"


def defined(library):
    return {line.split()[2].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()
            if line.split()[1] in "TWVDBR"}


def check_needs(library, allowed):
    for name, weak in undefined(library):
        if name not in allowed:
            problems.append(f"{library} needs {name}, which allowed.txt does not know")
        elif allowed[name] == "weak" and not weak:
            problems.append(f"{library} needs {name} strongly; it may only be used when it is there")
    for line in output("readelf", "-dW", library).splitlines():
        needed = re.search(r"\(NEEDED\).*\[(.+)\]", line)
        if needed and not LIBRARIES.fullmatch(needed[1]):
            problems.append(f"{library} needs the library {needed[1]}")


def main():
    dropin, embed, list_of_allowed = sys.argv[1:4]
    allowed = {}
    for line in open(list_of_allowed, encoding="utf-8"):
        words = line.split("#")[0].split()
        if words:
            allowed[words[0]] = words[1] if len(words) > 1 else "strong"
    for library in (dropin, embed):
        check_needs(library, allowed)
    for name in FAMILY + NOTED + PREFIXED + NEW_AND_DELETE + TOKENS:
        if name not in defined(dropin):
            problems.append(f"{dropin} does not export {name}")
    for name in PREFIXED:
        if name not in defined(embed):
            problems.append(f"{embed} does not export {name}")
    # The embedding library overrides nothing, and neither shows what is not its own.
    for name in defined(embed):
        if not name.startswith("fh_"):
            problems.append(f"{embed} exports {name}")
    for name in defined(dropin):
        if not name.startswith("fh_") and name not in FAMILY + NOTED + NEW_AND_DELETE + TOKENS:
            problems.append(f"{dropin} exports {name}")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} symbols out of order")
    sys.exit(1 if problems else 0)


main()

#!/usr/bin/env python3
"""A block of another allocator reaches our free: the report names the library that is loaded beside us.

owner.py LIBFREEHOLD.SO

The library is preloaded behind ours, because some cannot be loaded later. Python asks it for a block of its own heap and passes it to
`free`, once for each allocator that the machine has, and once a mapping of Python's own without any."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

PROGRAM = """import ctypes, mmap, sys
def take():
    if len(sys.argv) < 2:
        kept = mmap.mmap(-1, 65536)
        return kept, ctypes.addressof(ctypes.c_char.from_buffer(kept))
    library = ctypes.CDLL(sys.argv[1])
    call = getattr(library, sys.argv[2])
    call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * (2 if sys.argv[2] == "mallocx" else 1)
    return library, call(*([3000, 0][:len(call.argtypes)]))
kept, block = take()
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
free(block)
print("went on")"""
# Files by the names under which Debian has them, and a function of theirs that is not called malloc.
ALLOCATORS = [("libjemalloc.so.2", "mallocx"), ("libmimalloc.so.2", "mi_malloc"), ("libmimalloc.so.2.0", "mi_malloc"),
              ("libtcmalloc_minimal.so.4", "tc_malloc"), ("libtbbmalloc.so.2", "scalable_malloc")]


def said(library, arguments):
    environment = dict(os.environ, LD_PRELOAD=":".join([os.path.abspath(library), *arguments[:1]]), FREEHOLD="check=1,on_error=report")
    done = subprocess.run([sys.executable, "-S", "-c", PROGRAM, *arguments], env=environment, capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode or "went on" not in done.stdout:
        sys.exit(f"CHECK FAILED: {arguments}: ended with {done.returncode}: {done.stderr}")
    return done.stderr


def file_of(name):
    found = [path for folder in ("/usr/lib/*", "/usr/lib", "/usr/lib64") for path in glob.glob(f"{folder}/{name}")]
    return found[0] if found else None


def main():
    library, tried = sys.argv[1], 0
    text = said(library, [])
    if "is loaded" in text or "is in a mapping of 64 KiB" not in text:
        sys.exit(f"CHECK FAILED: a mapping of the program's own: {text}")
    for name, function in ALLOCATORS:
        path = file_of(name)
        if not path:
            continue
        text = said(library, [path, function])
        tried += 1
        if "perhaps another allocator's: /" not in text or f"/{name}" not in text or " is loaded" not in text:
            sys.exit(f"CHECK FAILED: a block of {name}: {text}")
        print(f"{name} is named")
    if not tried:
        skips.skip_part("no other allocator's library on this machine")


main()

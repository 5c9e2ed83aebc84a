#!/usr/bin/env python3
"""A module with operators new and delete of its own: what it makes the program deletes, and the other way round. With option check
that is no misuse, and a mismatch beside it is one.

own_new.py LIBFREEHOLD.SO MODULE"""

import os
import signal
import subprocess
import sys

PROGRAM = """import ctypes, sys
everybody, module = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
def function(of, name, *arguments):
    f = getattr(of, name)
    f.restype, f.argtypes = ctypes.c_void_p, arguments
    return f
new, delete = function(everybody, "_Znwm", ctypes.c_size_t), function(everybody, "_ZdlPv", ctypes.c_void_p)
sized = function(everybody, "_ZdlPvm", ctypes.c_void_p, ctypes.c_size_t)
makes, mallocs = function(module, "module_makes"), function(module, "module_mallocs")
drops = function(module, "module_drops", ctypes.c_void_p)
if sys.argv[2] == "theirs":
    delete(makes())
    sized(makes(), 4)
    drops(new(4))
    drops(makes())
else:
    delete(mallocs())
print("went on")"""


def run(library, module, case):
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(library), FREEHOLD="check=1")
    return subprocess.run([sys.executable, "-S", "-c", PROGRAM, os.path.abspath(module), case], env=environment, capture_output=True,
                          text=True, timeout=60, check=False)


def main():
    library, module = sys.argv[1:]
    done = run(library, module, "theirs")
    if done.returncode or done.stderr or "went on" not in done.stdout:
        sys.exit(f"CHECK FAILED: operators of the module's own: ended with {done.returncode}: {done.stderr}")
    done = run(library, module, "wrong")
    if done.returncode != -signal.SIGABRT or "wrong function: the block came from malloc" not in done.stderr:
        sys.exit(f"CHECK FAILED: malloc, then delete: ended with {done.returncode}: {done.stderr}")
    print("a module's own operators are no mismatch, and malloc with delete is")


main()

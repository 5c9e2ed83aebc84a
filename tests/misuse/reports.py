"""Reports of misuse as the tests compare them: without what differs from run to run."""

import os
import re
import shutil
import subprocess


def function_at(frame):
    found = re.fullmatch(r"    #0 0x[0-9a-f]+ (\S+)\+(0x[0-9a-f]+)", frame)
    if not found or not shutil.which("addr2line"):
        return "?"
    done = subprocess.run(["addr2line", "-ife", found[1], found[2]], capture_output=True, text=True, check=False)
    # Compilers differ in which of the wrappers of support/alloc.h they inline, and say: those are passed over.
    names = [name for name in done.stdout.splitlines()[::2] if not name.startswith("t_")] or ["?"]
    return re.sub(r"^_ZL?\d+(\w+?)v$", r"\1", names[0])


def normal(program, text):
    """Pointers are PTR. Of a stack the innermost function counts, of the bytes the one in brackets."""
    lines = []
    for line in text.splitlines():
        if re.match(r"    #0 ", line):
            lines[-1] += " " + function_at(line)
        elif re.match(r"    0x", line):
            here = re.search(r"\[(..)\]", line)
            if here:
                lines[-1] += " [" + here[1] + "]"
        elif not re.match(r"    #", line):
            line = line.replace(program, "PROGRAM").replace(os.path.realpath(program), "PROGRAM")
            lines.append(re.sub(r"0x[0-9a-f]{5,}", "PTR", line))
    return lines

#!/usr/bin/env python3
"""The hit paths of malloc and free, as the compiler really made them: no call, no instruction with a lock prefix.

disassemble.py LIBFREEHOLD.SO

What counts as the hit path: every instruction of the function that can be reached from its entry and from which a
`ret` of the same function can be reached. A slow path leaves by a jump to another function and never comes back
here, so what lies only on the way to such a jump is not part of it. The rule is strict on purpose: a slow path that was
inlined, and returns through the same `ret`, would make this test fail, and should."""

import re
import subprocess
import sys

FUNCTIONS = ["malloc", "free", "fh_malloc", "fh_free", "_Znwm", "_ZdlPv", "_ZdlPvm", "free_sized"]
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(.+?)\s*$")
TARGET = re.compile(r"\b([0-9a-f]+)\s+<([^>]+)>")


def disassembly(library):
    """Every function of the library as a list of (address, text), by address; and the names' addresses."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", "-w", library],
                          check=True, capture_output=True, text=True).stdout
    code = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            code.append((int(found[1], 16), found[2]))
    symbols = {}
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        address, kind, name = line.split()[:3]
        if kind in "TtWw":
            symbols[name.split("@")[0]] = int(address, 16)
    return code, symbols


def sizes(library):
    """How many bytes each function has: where it ends is where a jump leaves it."""
    text = subprocess.run(["readelf", "-sW", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        part = line.split()
        if len(part) >= 8 and part[3] == "FUNC":
            found[int(part[1], 16)] = max(found.get(int(part[1], 16), 0), int(part[2], 0))
    return found


def function_at(code, start, length):
    return [(address, text) for address, text in code if start <= address < start + length]


def successors(body):
    """For each instruction the instructions that may follow it within the function."""
    inside = {address for address, _ in body}
    follow = {}
    for index, (address, text) in enumerate(body):
        after = [body[index + 1][0]] if index + 1 < len(body) else []
        mnemonic = text.replace("bnd ", "").replace("notrack ", "").split()[0]
        target = TARGET.search(text)
        goal = [int(target[1], 16)] if target and int(target[1], 16) in inside else []
        if mnemonic.startswith("ret"):
            follow[address] = []
        elif mnemonic == "jmp":
            follow[address] = goal
        elif mnemonic.startswith("j"):
            follow[address] = goal + after
        else:
            follow[address] = after
    return follow


def reachable(starts, edges):
    seen, todo = set(), list(starts)
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo.extend(edges.get(at, []))
    return seen


def hit_path(body):
    forward = successors(body)
    backward = {}
    for at, nexts in forward.items():
        for goal in nexts:
            backward.setdefault(goal, []).append(at)
    returns = [address for address, text in body if re.match(r"(bnd )?ret", text)]
    path = reachable([body[0][0]], forward) & reachable(returns, backward)
    return [(address, text) for address, text in body if address in path]


def faults_of(text):
    """Why this instruction has no place on a hit path. An xchg with memory locks without saying so."""
    if re.match(r"lock\b", text) or re.match(r"xchg\w*\s.*\(", text):
        return "locked"
    if re.match(r"(bnd )?call", text):
        return "a call"
    if re.match(r"(mfence|lfence|sfence|cpuid|syscall|rdtsc)", text):
        return "a fence or worse"
    return None


def examine(name, body):
    path = hit_path(body)
    faults = [(address, text, faults_of(text)) for address, text in path if faults_of(text)]
    verdict = "ok" if path and not faults else "FAILED"
    print(f"{verdict:7} {name:10} {len(path):3} instructions lie on its hit paths, {len(body)} in all")
    if not path:
        print("        no way from the entry to a ret: everything here is a slow path")
    for address, text, why in faults:
        print(f"        {address:x}: {text}    <- {why}")
    return verdict == "ok"


def main():
    library = sys.argv[1]
    code, symbols = disassembly(library)
    lengths = sizes(library)
    good = True
    for name in FUNCTIONS:
        if name not in symbols:
            print(f"FAILED  {name}: not in {library}")
            good = False
            continue
        start = symbols[name]
        body = function_at(code, start, lengths[start])
        # A name that only jumps on to another stands for that one.
        first = [text for _, text in body if not text.startswith(("endbr64", "nop"))][0]
        jump = TARGET.search(first)
        if first.startswith("jmp") and jump and int(jump[1], 16) in lengths:
            start = int(jump[1], 16)
            body = function_at(code, start, lengths[start])
        good = examine(name, body) and good
    sys.exit(0 if good else 1)


main()

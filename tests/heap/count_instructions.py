#!/usr/bin/env python3
"""Compiles a C file so that it counts its own instructions: count_instructions.py MARK COMMAND…

COMMAND is that of the compiler, which builds an object. A file whose path has MARK in it becomes assembly first. Each piece of
straight code gets four instructions and a fifth in front, which add the piece's length to `fh_counted`, a thread-local word of the
program. They change no flag and no register, and use no stack. Other files are compiled as they are. x86-64, gcc or clang.

The word has two counts: bits 0 to 19 are instructions, those above are pieces. A test compares both with single steps."""

import os
import re
import subprocess
import sys

INSTRUCTION = re.compile(r"^\s+[a-z]")
LABEL = re.compile(r"^\s*[A-Za-z_.$0-9]\S*:")
ENDS = re.compile(r"^\s+(j[a-z]+|ret|retq|rep ret|loop[a-z]*)\b")
PIECE_SHIFT = 20
COUNT = """\tmovq\t%rax, %fs:fh_counted_rax@tpoff
\tmovq\t%fs:fh_counted@tpoff, %rax
\tleaq\t{add}(%rax), %rax
\tmovq\t%rax, %fs:fh_counted@tpoff
\tmovq\t%fs:fh_counted_rax@tpoff, %rax
"""


def pieces(lines):
    """The lines of each piece of straight code, with what is between them."""
    piece = []
    for line in lines:
        if LABEL.match(line) and piece:
            yield piece
            piece = []
        piece.append(line)
        if ENDS.match(line):
            yield piece
            piece = []
    yield piece


def is_instruction(line):
    return INSTRUCTION.match(line) and not line.lstrip().startswith((".", "#"))


def counted(text):
    out = []
    for piece in pieces(text.splitlines(keepends=True)):
        at = [i for i, line in enumerate(piece) if is_instruction(line)]
        if any(";" in piece[i].split("#")[0] for i in at):
            sys.exit(f"count_instructions.py: two instructions in a line: {piece}")
        if at:
            piece.insert(at[0], COUNT.format(add=len(at) + (1 << PIECE_SHIFT)))
        out += piece
    return "".join(out)


def main():
    mark, command = sys.argv[1], sys.argv[2:]
    if not any(mark in word and word.endswith(".c") for word in command):
        sys.exit(subprocess.run(command, check=False).returncode)
    target = command[command.index("-o") + 1]
    assembly = f"{target}.s"
    to_assembly = ["-S" if word == "-c" else assembly if word == target and command[i - 1] == "-o" else word
                   for i, word in enumerate(command)]
    compiled = subprocess.run(to_assembly + ["-g0", "-fno-lto"], check=False).returncode
    if compiled != 0:
        sys.exit(compiled)
    with open(assembly, encoding="utf-8") as file:
        text = counted(file.read())
    with open(assembly, "w", encoding="utf-8") as file:
        file.write(text)
    sys.exit(subprocess.run([command[0], "-c", assembly, "-o", target], check=False).returncode)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a test could not try is in the last lines of `make test`: skips.py SOURCE-ROOT C-PROGRAM WORK

Tests in C, shell and Python that skip are run by ctest, together with one that says nothing; with them goes what cargo would
have printed and the times of some parts, and the summary has to tell of all. Asked too: no test skips in another way than by the helpers."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT, PROGRAM, WORK = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
SUPPORT = ROOT.resolve() / "tests/support"

BY_SHELL = f'. "{SUPPORT}/skip.sh"; skip_part "a part by shell"; skip "all by shell"'
BY_PYTHON = f'import sys; sys.path.insert(0, "{SUPPORT}"); import skips; skips.skip_part("a part by Python"); skips.skip("all by Python")'
TESTS = {"c-part": [PROGRAM], "c-all": [PROGRAM, "all"], "shell": ["bash", "-c", BY_SHELL], "python": ["python3", "-c", BY_PYTHON],
         "silent": ["sh", "-c", "exit 77"], "fails": ["false"], "passes": ["true"]}

WANTED = """
== skipped: 5 tests, and 6 in part
  a: c-all (in part): a part by C
  a: c-all: all by C
  a: c-part (in part): a part by C
  a: python (in part): a part by Python
  a: python: all by Python
  a: shell (in part): a part by shell
  a: shell: all by shell
  a: silent: it gave no reason
  b: file::one (in part): a part by Rust
  b: file::two (in part): a part by Rust
  b: file::two: all by Rust

== time by part, in minutes and seconds
  part   time  building  passed  failed  skipped
  lint   0:52
  a     61:05      2:07       2       1        4
  b      0:00                 4       1        1
  all   61:57
6 passed, 2 failed, 5 skipped
"""

# What says "skipped" or leaves with 77 by itself would not be counted.
BY_ITSELF = re.compile(r"\bexit\(?\s?77|return 77|print\w*!?\(.{0,3}(?:SKIPPED|skipped|left out)", re.I)
HELPERS = {"check.h", "skip.sh", "skips.py", "testing.rs", "filtered.c"}  # run.py asks the last one, and skips for it


def summary():
    done = subprocess.run([sys.executable, ROOT / "scripts/summary.py", WORK], capture_output=True, text=True, check=True)
    return done.stdout


def expect(wanted):
    said = summary()
    if said != wanted:
        sys.exit(f"CHECK FAILED: the summary is not as it should be:\n{said}")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    expect("\n== skipped: none\n0 passed, 0 failed, 0 skipped\n")
    lines = []
    for name, words in TESTS.items():
        lines.append(f"add_test({name} " + " ".join(f"[=[{word}]=]" for word in words) + ")\n"
                     f'set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "FREEHOLD_TEST_NAME={name}")\n')
    (WORK / "CTestTestfile.cmake").write_text("".join(lines))
    subprocess.run(["ctest", "--test-dir", WORK, "--output-junit", WORK / "a.xml"], stdout=subprocess.DEVNULL,
                   env={**os.environ, "FREEHOLD_SKIPS": str(WORK / "a.skips")})
    (WORK / "b.cargo").write_text("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n"
                                  "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\n")
    (WORK / "b.skips").write_text("file::one (in part): a part by Rust\nfile::two (in part): a part by Rust\n"
                                  "file::two: all by Rust\nfile::two: all by Rust\n")
    (WORK / "times").write_text("lint 52\na 3665 127\nb 0\n")
    expect(WANTED)
    for folder in ("tests", "tools", "model"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".c", ".h", ".cc", ".py", ".sh", ".rs") or path.name in HELPERS or "target" in path.relative_to(ROOT).parts:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if BY_ITSELF.search(line) and path.resolve() != pathlib.Path(__file__).resolve():
                    sys.exit(f"CHECK FAILED: {path}:{number} skips by itself: {line.strip()}")
    print("all that was skipped is told")


main()

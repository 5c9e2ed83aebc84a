#!/usr/bin/env python3
"""The knobs of tests/README.md have the effect that they are said to have, also through ctest: knobs.py SOURCE-ROOT BUILD WORK

1. Each knob of the table is read by some test, script or tool; each variable that the tests read is in the README.
2. No entry of ctest sets a knob itself: what ctest sets replaces what the user sets.
3. Where it takes only seconds, tests are run by ctest with the knob set, and have to say that it arrived."""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT, BUILD, WORK = (pathlib.Path(word).resolve() for word in sys.argv[1:])
README = (ROOT / "tests/README.md").read_text(encoding="utf-8")
VARIABLE = re.compile(r"\bFREEHOLD_(?:TEST|SOAK|STALL|MODEL|SKIPS|GROUP)(?:_[A-Z]+)*\b")
# What is read: by C, by CMake and shell, by Python, by Rust.
READ = re.compile(r"""(?:getenv|env_number|environ\.get|env::var|var_os)\(\s*"(FREEHOLD_[A-Z_]+)"|\$\{(FREEHOLD_[A-Z_]+):""")


def fail(message):
    sys.exit(f"CHECK FAILED: {message}")


def section(title):
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def knobs():
    """The names in the first column of the table."""
    rows = [line.split("|")[1] for line in section("Knobs").splitlines() if line.startswith("| `")]
    found = {name for row in rows for name in VARIABLE.findall(row)}
    if len(found) < 8:
        fail(f"the table of knobs was not understood: {sorted(found)}")
    return found


def variables_read():
    """Each variable that something reads, with one of its readers."""
    found = {}
    for folder in ("tests", "scripts", "model/tests", "model/src", "tools/profile-file/src", "tools/trace-file/tests",
                   "tools/freehold/tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".c", ".h", ".cc", ".py", ".sh", ".rs"):
                continue
            for groups in READ.findall(path.read_text(encoding="utf-8")):
                found.setdefault(next(filter(None, groups)), path.relative_to(ROOT))
    return found


def entries():
    """Every entry of ctest: its name and labels, and the names of the variables that it sets."""
    done = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    for test in json.loads(done.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        yield test["name"], properties.get("LABELS", []), {v.split("=")[0] for v in properties.get("ENVIRONMENT", [])}


def run(pattern, at_least, **environment):
    """What ctest shows of each test with such a name, run with these variables."""
    # A folder of its own, as ctest keeps its records where it is called, and this test is called by one.
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "CTestTestfile.cmake").write_text(f'subdirs("{BUILD}")\n')
    cleared = {k: v for k, v in os.environ.items() if not VARIABLE.fullmatch(k) or k == "FREEHOLD_SKIPS"}
    done = subprocess.run(["ctest", "--test-dir", WORK, "--verbose", "--no-tests=error", "-R", pattern],
                          capture_output=True, text=True, env=cleared | environment)
    if done.returncode:
        fail(f"{environment}: ctest -R '{pattern}' ended with {done.returncode}:\n{done.stdout[-4000:]}")
    outputs = {}
    for number, text in re.findall(r"^(\d+): (.*)$", done.stdout, re.M):
        outputs.setdefault(number, []).append(text)
    if len(outputs) < at_least:
        fail(f"ctest -R '{pattern}' ran {len(outputs)} tests, {at_least} were expected")
    return ["\n".join(lines) for lines in outputs.values()]


def must_say(wanted, pattern, at_least, **environment):
    for output in run(pattern, at_least, **environment):
        if not re.search(wanted, output, re.M):
            fail(f"{environment} has no effect through ctest, {wanted!r} is not in:\n{output}")
    print(f"{' '.join(f'{k}={v}' for k, v in environment.items())}: ctest -R '{pattern}' obeys")


def main():
    known, read = knobs(), variables_read()
    for name in sorted(known - set(read)):
        fail(f"tests/README.md has the knob {name}, which nothing reads")
    for name in sorted(set(read) - set(VARIABLE.findall(README))):
        fail(f"{read[name]} reads {name}, of which tests/README.md says nothing")
    soaked = []
    for name, labels, sets in entries():
        if sets & known:
            fail(f"the entry {name} of ctest sets {sets & known}, so that nobody else can")
        # Those of proof/ take minutes also in a short soak.
        if "stress" in labels and "proof" not in labels:
            soaked.append(re.escape(name))
    must_say(r"^3 forks from a program", r"^life\.fork_storm\.|^observe\.1\.life\.fork_storm$", 3, FREEHOLD_TEST_FORKS="3")
    must_say(r"^16 threads: resident", r"^life\.thread_storm\.|^observe\.1\.life\.thread_storm$", 3, FREEHOLD_TEST_THREADS="16")
    must_say(r"^seed: FREEHOLD_TEST_SEED=77$", r"^life\.fork_storm\.dropin$", 1, FREEHOLD_TEST_SEED="77", FREEHOLD_TEST_FORKS="3")
    must_say(r"^seconds: 1$", r"^stress\.mixed\.dropin$|^observe\.1\.stress\.mixed$", 2, FREEHOLD_TEST_SECONDS="1")
    must_say(r"^seconds: 1$", "^(" + "|".join(soaked) + ")$", 6, FREEHOLD_SOAK="1")
    print(f"{len(known)} knobs, {len(soaked)} tests that a soak makes longer")


main()

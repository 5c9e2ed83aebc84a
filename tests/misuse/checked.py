#!/usr/bin/env python3
"""Runs each misuse that option check finds in a process of its own and compares the whole report.

checked.py EXPECTED.TXT PROGRAM... [--print]

Each case is run twice: with check=1, which is a report and SIGABRT, and with on_error=report too, which is the same
report once, and a process that goes on. Pointers are compared as PTR. Of a stack the innermost function is compared,
which addr2line names; of the bytes the one in brackets. A case with nothing but `went on` must say nothing.
--print writes what was said, in the form of EXPECTED.TXT."""

import os
import re
import signal
import subprocess
import sys

from reports import normal

failures = []
ENDS = "(goes on)"  # behind the name of a case whose reports do not end the process


def run(program, case, options):
    environment = dict(os.environ, FREEHOLD=options)
    return subprocess.run([program, case], env=environment, capture_output=True, text=True, timeout=60)


def read_expected(path):
    """case → (goes on, lines)"""
    cases, lines = {}, None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if not line or line.startswith("# "):
            continue
        if line.startswith("> "):
            lines.append(line[2:])
        else:
            name = line.replace(ENDS, "").strip()
            lines = []
            cases[name] = (ENDS in line, lines)
    return cases


def fail(case, text):
    failures.append(case)
    print(f"FAILED {case}: {text}")


def same(seen, wanted):
    """Underruns hit bytes that are different in each run."""
    return len(seen) == len(wanted) and all(
        one == two or re.sub(r"\[..\]", "[..]", one) == two for one, two in zip(seen, wanted))


def check_case(program, case, goes_on, wanted):
    done = run(program, case, "check=1")
    seen = normal(program, done.stderr)
    ends = -signal.SIGABRT if wanted and not goes_on else 0
    if done.returncode != ends:
        fail(case, f"ended with {done.returncode}, not {ends}; stderr:\n{done.stderr}")
    if not same(seen, wanted):
        fail(case, "said\n" + "\n".join(seen) + "\nand not\n" + "\n".join(wanted))
    if re.search(r"^wrong: |nothing found| found$|damaged$", done.stdout, re.M):
        fail(case, done.stdout)
    done = run(program, case, "check=1,on_error=report")
    if done.returncode != 0 or "went on" not in done.stdout:
        fail(case, f"with on_error=report: ended with {done.returncode}: {done.stderr}")
    if not same(normal(program, done.stderr), wanted):
        fail(case, "with on_error=report: said\n" + done.stderr)


def option_counts(programs):
    """Without the option none of it is said: it is the option that finds the overrun."""
    for options in ("", "check=0"):
        done = run(programs[0], "overflow_by_1", options)
        if done.returncode != 0 or done.stderr:
            fail("overflow_by_1", f"FREEHOLD={options}: ended with {done.returncode} and said {done.stderr!r}")
    # Without a quarantine a block leaves at once, and what is written to it later is not looked for.
    done = run(programs[0], "write_after_free_at_exit", "check=1,quarantine=0")
    if done.returncode != 0 or done.stderr:
        fail("write_after_free_at_exit", f"quarantine=0: said {done.stderr!r}")
    # What it said of itself is in the memory that it has left, as long as that is not used again.
    done = run(programs[0], "double_at_once", "check=1,quarantine=0")
    if done.returncode != -signal.SIGABRT or "double free: this block of 40 bytes" not in done.stderr:
        fail("double_at_once", f"quarantine=0: ended with {done.returncode}: {done.stderr}")
    # It may be set later, while there is one thread.
    done = run(programs[0], "set_later", "")
    if done.returncode != -signal.SIGABRT or "overflow: byte 40" not in done.stderr or "wrong" in done.stdout:
        fail("set_later", f"ended with {done.returncode}: {done.stdout}{done.stderr}")
    done = run(programs[0], "set_with_threads", "")
    if done.returncode != 0 or "set: -1" not in done.stdout or "check=1 is for the start" not in done.stderr:
        fail("set_with_threads", f"ended with {done.returncode}: {done.stdout}{done.stderr}")
    done = run(programs[0], "overflow_then_calls", "check=2")
    if done.returncode != -signal.SIGABRT or "found by a check of the heap" not in done.stderr:
        fail("overflow_then_calls", f"check=2: ended with {done.returncode}: {done.stderr}")
    done = run(programs[0], "life", "check=2")
    if done.returncode != 0 or done.stderr:
        fail("life", f"check=2: ended with {done.returncode} and said {done.stderr!r}")


def cases_of(program):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "checked_new.cc" if "new" in os.path.basename(program) else "checked.c")
    text = open(source, encoding="utf-8").read()
    return re.findall(r"^    CASE\((\w+)\)|^    \{\"(\w+)\",", text, re.M)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    expected, programs = arguments[0], [os.path.abspath(p) for p in arguments[1:]]
    wanted = read_expected(expected) if os.path.exists(expected) else {}
    count = 0
    for program in programs:
        for case in (one or two for one, two in cases_of(program)):
            count += 1
            if "--print" in sys.argv:
                print(case)
                for line in normal(program, run(program, case, "check=1").stderr):
                    print("> " + line)
            elif case not in wanted:
                fail(case, "not in the list of what is expected")
            else:
                check_case(program, case, *wanted[case])
    if "--print" not in sys.argv:
        option_counts(programs)
        if count != len(wanted):
            fail("all", f"{count} cases, {len(wanted)} expected")
        print(f"{count} misuses, {len(set(failures))} answered wrongly")
    sys.exit(1 if failures else 0)


main()

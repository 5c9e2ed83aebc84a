#!/usr/bin/env python3
"""Runs each misuse in a process of its own and compares what was said, and how the process ended.

run.py MISUSE-PROGRAM EXPECTED.TXT release|checked|stress [CASE...]

Each case is run twice: with the default, which is a message and SIGABRT, and with on_error=report, which is the
same message once, the call ignored, and a process that goes on with a heap that works."""

import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

failures = []


def fail(case, text):
    failures.append(case)
    print(f"FAILED {case}: {text}")


def run(program, case, options):
    environment = dict(os.environ, FREEHOLD=options)
    return subprocess.run([program, case], env=environment, capture_output=True, text=True, timeout=60)


def pattern(text):
    return re.compile("^" + text.replace("PTR", "0x[0-9a-f]+") + "$")


def expect_message(program, case, wanted):
    done = run(program, case, "")
    lines = done.stderr.splitlines()
    if done.returncode != -signal.SIGABRT:
        fail(case, f"ended with {done.returncode}, not by SIGABRT; stderr {lines}, stdout {done.stdout!r}")
    elif len(lines) != 1 or not wanted.match(lines[0]):
        fail(case, f"said {lines}, wanted one line like {wanted.pattern}")
    done = run(program, case, "on_error=report")
    lines = done.stderr.splitlines()
    if done.returncode != 0 or "went on" not in done.stdout:
        fail(case, f"with on_error=report: ended with {done.returncode}; stderr {lines}")
    elif len(lines) != 1 or not wanted.match(lines[0]):
        fail(case, f"with on_error=report: said {lines}, wanted once {wanted.pattern}")


def expect_silence(program, case):
    done = run(program, case, "")
    if done.returncode != 0 or done.stderr or "went on" not in done.stdout:
        fail(case, f"ended with {done.returncode} and said {done.stderr!r} instead of nothing")


def expect_lines(program, case, options, wanted):
    """Every wanted line, each exactly once, and the program goes on."""
    done = run(program, case, options)
    if done.returncode != 0 or "went on" not in done.stdout:
        fail(case, f"FREEHOLD={options}: ended with {done.returncode}: {done.stderr}")
    for line in wanted:
        found = [seen for seen in done.stderr.splitlines() if re.match(line + "$", seen)]
        if len(found) != 1:
            fail(case, f"FREEHOLD={options}: {len(found)} lines like {line!r} in:\n{done.stderr}")


def options_are_named(program):
    unknown = r'freehold: unknown option "foo"; valid options: verbose, .*on_error.*'
    bad = r'freehold: option "verbose" has bad value "maybe"; valid values: 0, 1'
    expect_lines(program, "innocent", "foo=1", [unknown])
    expect_lines(program, "innocent", "foo", [unknown])
    expect_lines(program, "innocent", "verbose=maybe", [bad])
    expect_lines(program, "innocent", "verbose=", [r'freehold: option "verbose" has bad value ""; .*'])
    expect_lines(program, "innocent", "foo=1,on_error=nonsense,thp=never", [
        unknown, r'freehold: option "on_error" has bad value "nonsense"; valid values: abort, report'])
    expect_lines(program, "unknown_option_call", "", [unknown, bad])
    # The banner: version, what is active, and each option that is not the default; nothing of the others, even where they
    # are named.
    banner = [r"freehold: version \d+\.\d+\.\d+ is active \(.+\)", r"freehold: option on_error=report \(from FREEHOLD\)",
              r"freehold: option verbose=1 \(from FREEHOLD\)", r"freehold: option metrics=/dev/null \(from FREEHOLD\)",
              r"freehold: option limit=[0-9.]+ ?[GM]i?B? \(from FREEHOLD\)"]
    options = "verbose=1,on_error=report,thp=auto,metrics=/dev/null,limit=2g"
    expect_lines(program, "innocent", options, banner)
    done = run(program, "innocent", options)
    shown = [line for line in done.stderr.splitlines() if "option" in line]
    if len(shown) != 4:
        fail("innocent", f"FREEHOLD={options}: four options are not the default, and it says {shown}")
    # The list: every option that the message about an unknown one names, with the values that a bad one names.
    expect_lines(program, "innocent", "help,verbose=maybe", [
        bad, r"freehold: version \S+, options as FREEHOLD=.*", r"  verbose +at start: .*", r"  page +where .*"])
    listed = re.findall(r"^  (\w+) ", run(program, "innocent", "help").stderr, re.M)
    named = run(program, "innocent", "foo=1").stderr.split("valid options: ")[1].strip().split(", ")
    if listed != named:
        fail("innocent", f"FREEHOLD=help lists {listed}, and the valid options are {named}")
    # A long, odd environment is reported, not believed.
    expect_lines(program, "innocent", "x" * 5000, [r'freehold: unknown option "x{20,}.*'])
    expect_silence(program, "innocent")


def main():
    program, table, build, *chosen = sys.argv[1:]
    if not chosen:
        options_are_named(program)
    count = 0
    for line in open(table, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        case, kind, text = (part.strip() for part in line.split("|", 2))
        if chosen and case not in chosen:
            continue
        count += 1
        if kind == "cached" and build == "stress":
            skips.skip_part(f"{case}: the verification of the heap, which a stress build does all the time, finds it first")
        elif kind != "checked" or build != "release":
            expect_message(program, case, pattern(text))
        else:
            expect_silence(program, case)
    print(f"{count} misuses, {len(set(failures))} answered wrongly")
    sys.exit(1 if failures else 0)


main()

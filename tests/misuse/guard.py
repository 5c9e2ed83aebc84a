#!/usr/bin/env python3
"""Runs each misuse that option guard finds in a process of its own and compares the whole report.

guard.py EXPECTED.TXT PROGRAM NO-GUARDS.SO [--print]

Every allocation is guarded: guard=1. Each case is run three times: as it is; with on_error=report, where what was found in a call
is told and no more; and with NO-GUARDS.SO, under which the kernel cannot mark pages. Pointers are compared as PTR. Of a stack the
innermost function is compared, which addr2line names. EXPECTED.TXT says of each case how the process ends, and what it says.
--print writes what was said, in that form."""

import json
import os
import re
import signal
import subprocess
import sys

from reports import normal

failures = []

# These set the option themselves.
LATER = ("handler_set_before", "handler_is_told_of_others", "ignored_signal_is_sent", "mappings_count")
COUNTS = ("mappings_count", "share_count", "reuse")
# These wait until their block is a guarded one.
WITHOUT_MARKS = ("read_after_free", "write_after_free", "overflow_read", "underflow_by_1", "overflow_found_by_free",
                 "underflow_found_by_free", "old_pointer_after_realloc", "free_behind", "life")


def run(program, case, options, preload=None):
    if case in LATER:
        options = options.replace("guard=1,", "").replace("guard=1", "")
    environment = dict(os.environ, FREEHOLD=options)
    if preload:
        environment["LD_PRELOAD"] = preload
    return subprocess.run([program, case], env=environment, capture_output=True, text=True, timeout=60)


def ending(code):
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def read_expected(path):
    """case → (ending, lines)"""
    cases, lines = {}, None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if not line or line.startswith("# "):
            continue
        if line.startswith("> "):
            lines.append(line[2:])
        else:
            name, end = line.split(": ")
            lines = []
            cases[name] = (end, lines)
    return cases


def fail(case, text):
    failures.append(case)
    print(f"FAILED {case}: {text}")


def check(program, case, wanted, options, preload=None):
    done = run(program, case, options, preload)
    end, lines = wanted
    how = f"{options}{' without marks' if preload else ''}"
    if "on_error=report" in options and end == "SIGABRT":
        end = "exit 0"
    if ending(done.returncode) != end:
        fail(case, f"{how}: ended with {ending(done.returncode)}, not {end}; stderr:\n{done.stderr}")
    seen = normal(program, done.stderr)
    if seen != lines:
        fail(case, f"{how}: said\n" + "\n".join(seen) + "\nand not\n" + "\n".join(lines))
    if "wrong: " in done.stdout:
        fail(case, f"{how}: {done.stdout}")
    return done


def number(program, case, options, words, preload=None):
    done = run(program, case, options, preload)
    found = re.search(words + r": (\d+)", done.stdout)
    if done.returncode or not found:
        fail(case, f"{options}: ended with {done.returncode}: {done.stdout}{done.stderr}")
    return [int(n) for n in re.findall(r": (\d+)", done.stdout)] if found else [0, 0, 0]


def option_counts(program, no_guards):
    # Off, nothing is guarded, and none of it is found.
    for options in ("", "guard=0"):
        if number(program, "share_count", options, "guarded")[0] != 0:
            fail("share_count", f"{options}: something is guarded")
    # Of each N allocations one: the last round may be open. `guard` stands for guard=1000.
    for options, one_in in (("guard", 1000), ("guard=1000", 1000), ("guard=10", 10)):
        guarded, right, every = number(program, "share_count", options, "guarded")
        if abs(guarded - every / one_in) > 2 or abs(2 * right - guarded) > 2:
            fail("share_count", f"{options}: {guarded} of {every} are guarded, {right} of them at the right")
    # Beside samples each is drawn for itself: within five standard deviations of 1,200, which are 173.
    guarded = number(program, "share_count", "guard=50,observe=1", "guarded")[0]
    if abs(guarded - 1200) > 173:
        fail("share_count", f"with observe=1: {guarded} of 60,000 are guarded")
    # By mprotect, one in eight times as many.
    guarded = number(program, "share_count", "guard", "guarded", no_guards)[0]
    if abs(guarded - 7) > 2:
        fail("share_count", f"by mprotect: {guarded} of 60,000 are guarded")
    # The last step of slots has all of them open: one mapping, and one for the end of the reservation.
    more = number(program, "mappings_count", "", "mappings")[0]
    if more > 2:
        fail("mappings_count", f"{more} mappings more")
    more = number(program, "mappings_count", "", "mappings", no_guards)[0]
    if more > 2 * 256 + 2:
        fail("mappings_count", f"by mprotect: {more} mappings more")
    # A block that was freed waits as long as there is less than that in the quarantine, in pages of 4 KiB. The next block in its
    # slot is at the other end, so that it is the second one that has the same address.
    for options, least, most in (("guard=1,quarantine=0", 1, 1), ("guard=1,quarantine=1m", 2 * 256, 2 * 260),
                                 ("guard=1", 2 * 2048, 2 * 2052)):
        others = number(program, "reuse", options, "again after")[0]
        if not least <= others <= most:
            fail("reuse", f"{options}: the block's place is used again after {others} others")
    bad_values(program)


def bad_values(program):
    for value in ("guard=x", "guard=2000000", "guard="):
        done = run(program, "life", value)
        if f"has bad value \"{value[6:]}\"" not in done.stderr or "valid values: 0, or one in how many" not in done.stderr:
            fail("life", f"{value}: said {done.stderr!r}")
    done = run(program, "null_pointer", "guard,verbose=1")
    for line in ("freehold: option guard=1000 (from FREEHOLD)", "for one allocation in 1000"):
        if line not in done.stderr:
            fail("null_pointer", f"verbose: said {done.stderr!r}")
    for options, line in (("guard=1,check=1", "option guard does nothing, because option check finds more"),
                          ("guard=1,harden=1", "option guard does nothing beside option harden"),
                          ("observe=1,check=1", "option observe does nothing beside option check"),
                          ("harden=1,observe=1", "option observe does nothing beside option harden")):
        done = run(program, "life", options)
        if done.stderr != f"freehold: {line}\n" or done.returncode:
            fail("life", f"{options}: said {done.stderr!r}")


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    expected, program, no_guards = arguments[0], os.path.abspath(arguments[1]), os.path.abspath(arguments[2])
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.c")
    cases = [name for name in re.findall(r"CASE\((\w+)\)", open(source, encoding="utf-8").read())
             if name not in COUNTS and name != "name"]
    if "--print" in sys.argv:
        for case in cases:
            done = run(program, case, "guard=1")
            print(f"{case}: {ending(done.returncode)}")
            for line in normal(program, done.stderr):
                print("> " + line)
            if "wrong" in done.stdout:
                print("# " + json.dumps(done.stdout))
        return
    wanted = read_expected(expected)
    for case in cases:
        if case not in wanted:
            fail(case, "not in the list of what is expected")
            continue
        check(program, case, wanted[case], "guard=1")
        check(program, case, wanted[case], "guard=1,on_error=report")
        if case in WITHOUT_MARKS:
            check(program, case, wanted[case], "guard=1", no_guards)
    if len(cases) != len(wanted):
        fail("all", f"{len(cases)} cases, {len(wanted)} expected")
    option_counts(program, no_guards)
    print(f"{len(cases)} cases, {len(set(failures))} answered wrongly")
    sys.exit(1 if failures else 0)


main()

"""A strict reader of the part of OpenMetrics 1.0 that gauges and counters need. Whatever the standard forbids ends the
program with the line and the reason.  openmetrics.py FILE checks a file."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import skips  # noqa: E402

DEBIANS = "/usr/bin/python3"

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL}(?:,{LABEL})*)?)\}})? (\S+)")
META = re.compile(rf"# (HELP|TYPE|UNIT) ({NAME}) (.*)")
TYPES = {"gauge", "counter"}


@dataclass
class Sample:
    name: str
    labels: dict
    value: int


@dataclass
class Family:
    name: str
    kind: str = "unknown"
    unit: str = ""
    help: str = ""
    seen: set = field(default_factory=set)
    samples: list = field(default_factory=list)


def refuse(number, line, why):
    sys.exit(f"CHECK FAILED: OpenMetrics, line {number}: {why}: {line!r}")


def read_meta(number, line, family, word, text):
    if word in family.seen:
        refuse(number, line, f"a second {word}")
    if family.samples:
        refuse(number, line, f"{word} after a sample")
    family.seen.add(word)
    if word == "TYPE":
        if text not in TYPES:
            refuse(number, line, "a type that is not used here")
        family.kind = text
        if text == "counter" and family.name.endswith("_total"):
            refuse(number, line, "a counter's family is named without _total")
    elif word == "UNIT":
        if not family.name.endswith("_" + text):
            refuse(number, line, "the name does not end in its unit")
        family.unit = text
    else:
        if re.search(r'\\(?![\\n"])', text):
            refuse(number, line, "a bare backslash")
        family.help = text


def read_sample(number, line, family):
    found = SAMPLE.fullmatch(line)
    if not found:
        refuse(number, line, "no sample")
    name = found[1]
    wanted = family.name + ("_total" if family.kind == "counter" else "")
    if name != wanted:
        refuse(number, line, f"in the family {family.name} of type {family.kind} only {wanted} may appear")
    labels = re.findall(LABEL, found[2] or "")
    if len(dict(labels)) != len(labels):
        refuse(number, line, "a label twice")
    if any(s.labels == dict(labels) for s in family.samples):
        refuse(number, line, "the same labels twice")
    if family.samples and set(family.samples[0].labels) != set(dict(labels)):
        refuse(number, line, "other labels than the sample before")
    if not re.fullmatch(r"\d+", found[7]):
        refuse(number, line, "not a whole number")
    family.samples.append(Sample(name, dict(labels), int(found[7])))


def parse(text):
    """The families by name."""
    if not text.endswith("# EOF\n"):
        sys.exit("CHECK FAILED: OpenMetrics: does not end in '# EOF' and a line feed")
    families, current = {}, None
    for number, line in enumerate(text.split("\n")[:-2], 1):
        if line == "# EOF":
            refuse(number, line, "an early end")
        found = META.fullmatch(line)
        if found:
            word, name, rest = found.groups()
            if current is None or current.name != name:
                if name in families:
                    refuse(number, line, "a family in two places")
                current = families[name] = Family(name)
            read_meta(number, line, current, word, rest)
        elif current is None or line.startswith("#"):
            refuse(number, line, "neither a sample nor HELP, TYPE or UNIT")
        else:
            read_sample(number, line, current)
    for family in families.values():
        if family.seen >= {"HELP", "TYPE"} and family.samples:
            continue
        sys.exit(f"CHECK FAILED: OpenMetrics: {family.name} lacks HELP, TYPE or samples")
    return families


def cross_check(text):
    """The reference implementation's reader, where it is installed (python3-prometheus-client)."""
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
        from prometheus_client.parser import text_string_to_metric_families as older_form
    except ImportError:
        # The package is Debian's, and another python3 may come first in the path.
        if os.path.exists(DEBIANS) and os.path.realpath(sys.executable) != os.path.realpath(DEBIANS):
            if subprocess.run([DEBIANS, os.path.abspath(__file__), "/dev/stdin"], input=text, text=True).returncode:
                sys.exit("CHECK FAILED: OpenMetrics: the reference implementation refuses it")
            return
        skips.skip_part("no python3-prometheus-client: read by our own checker only")
        return
    names = [f.name for f in text_string_to_metric_families(text)]
    assert len(names) == len(parse(text)), names
    assert list(older_form(text))
    print("read by the reference implementation too")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        content = file.read()
    parse(content)
    cross_check(content)

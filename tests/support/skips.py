"""For the tests that are Python scripts. What could not be tested is printed, and is a line of the file that FREEHOLD_SKIPS
names: see tests/README.md."""

import os
import sys

STATUS = 77  # what ctest is told to count as skipped


def note(mark, why):
    line = f"{os.environ.get('FREEHOLD_TEST_NAME') or os.path.basename(sys.argv[0])}{mark}: {why}\n"
    sys.stderr.write("SKIPPED: " + line)
    if path := os.environ.get("FREEHOLD_SKIPS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)


def skip(why):
    """Nothing could be tested here. Ends the script."""
    note("", why)
    sys.exit(STATUS)


def skip_part(why):
    """A part could not be tested here; the rest of the test goes on."""
    note(" (in part)", why)

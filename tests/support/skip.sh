# Sourced by the tests that are shell scripts. What could not be tested is printed, and is a line of the file that
# FREEHOLD_SKIPS names: see tests/README.md.

note_skip() {
    local line="${FREEHOLD_TEST_NAME:-$(basename "$0")}$1: $2"
    printf 'SKIPPED: %s\n' "$line" >&2
    [ -z "${FREEHOLD_SKIPS:-}" ] || printf '%s\n' "$line" >>"$FREEHOLD_SKIPS"
}

# Nothing could be tested here. Ends the script.
skip() { note_skip "" "$*"; exit 77; }

# A part could not be tested here; the rest of the test goes on.
skip_part() { note_skip " (in part)" "$*"; }

#!/usr/bin/env bash
# The long forms of the stress tests: scripts/soak.sh [BUILD] [MINUTES]. The tests that carry the ctest label
# `stress` read FREEHOLD_SOAK, the seconds that each may take, and go on until then; set, it goes before MINUTES.
#
# Then real programs in their long forms, with those that are too large for `make test`.
#
# With the default of two minutes a test it takes about an hour and a quarter on two idle cores: the stress tests of the release
# build, those of the starved and the sanitized one if `make test` has built these, and each scenario of the model for
# at most half a minute. Those that share a heap between threads check all of it after each round (fh_verify). Beside
# those that go on for the minutes there are three:
#
#   proof.stall               some ten thousand stops, at each of which others go on for a million blocks: as many as five
#                             times the minutes allow, spread over all steps. It says how many these were and where
#                             to go on: FREEHOLD_STALL_FIRST=N scripts/soak.sh
#   proof.handover, .crowd    have their number (50 million blocks three times, 100,000 threads) and take what they take, some
#                             minutes each
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
minutes=${2:-${SOAK_MINUTES:-2}}
export FREEHOLD_SOAK=${FREEHOLD_SOAK:-$((minutes * 60))}

say() { printf '\n== %s\n' "$*"; }

for folder in "$build" "$build"/variant-stress "$build"/variant-tsan; do
    # The variants are there after a `make test`; without one, only the release build is soaked.
    [ -e "$folder/CTestTestfile.cmake" ] || continue
    say "soak: $folder, $FREEHOLD_SOAK seconds a test"
    # As in scripts/test.sh: what runs with blocks sampled is soaked as it is shipped.
    leave_out='^observe\.'
    [ "$folder" = "$build" ] && leave_out='^$'
    ctest --test-dir "$folder" --output-on-failure --no-tests=error -L stress -E "$leave_out" \
        --timeout $((FREEHOLD_SOAK * 6 + 5400)) </dev/null
done

say "soak: ten thousand forks"
FREEHOLD_TEST_FORKS=10000 ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^life\.fork_storm' \
    --timeout 7200 </dev/null
FREEHOLD_TEST_FORKS=1000 ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^large\.resize\.fork' \
    --timeout 7200 </dev/null

# Shown with what it prints, which says how many reads there were.
say "soak: a billion reads by readers that race writers"
FREEHOLD_TEST_READS=1000000000 ctest --test-dir "$build" --verbose --no-tests=error -R '^defer\.race' \
    --timeout 7200 </dev/null

say "soak: a billion operations on bounded heaps, and the instructions of some calls among them"
FREEHOLD_TEST_OPERATIONS=1000000000 FREEHOLD_TEST_CALLS=20000 ctest --test-dir "$build" --verbose --no-tests=error \
    -R '^heap\.bounded\.(threads\.embed|steps)' --timeout 7200 </dev/null

# In each of five situations 200 million.
say "soak: a billion calls on bounded heaps, each with its instructions counted"
FREEHOLD_TEST_OPERATIONS=200000000 ctest --test-dir "$build" --verbose --no-tests=error -R '^heap\.bounded\.counted' \
    --timeout 7200 </dev/null

say "soak: lint, without a limit for the analyzer"
scripts/lint.sh "$build"

say "soak: real programs, long"
FREEHOLD_TEST_PROGRAMS=long ctest --test-dir "$build" --output-on-failure --no-tests=error -L 'programs|soak' \
    --timeout 7200 </dev/null

say "soak: a hundred thousand damaged traces, and as many profile files"
FREEHOLD_TEST_MUTATIONS=100000 cargo test --release --locked --manifest-path tools/Cargo.toml --target-dir "$build/cargo" \
    -p trace-file -p profile-file -- --nocapture </dev/null

export FREEHOLD_SOAK=$((FREEHOLD_SOAK / 4 + 1))
say "soak: the model, at most $FREEHOLD_SOAK seconds a scenario"
cargo test --locked --manifest-path model/Cargo.toml --target-dir "$build/model" -- --nocapture </dev/null

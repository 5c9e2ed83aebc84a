#!/usr/bin/env bash
# The long forms of the stress tests: scripts/soak.sh [BUILD] [MINUTES]. The tests that carry the ctest label
# `stress` read FREEHOLD_SOAK, the seconds that each may take, and go on until then.
#
# With the default of two minutes a test it takes about an hour and a half on two idle cores: some twelve tests of the release
# build, as many of the starved and the sanitized one if `make test` has built these, the stall test with every
# scenario (which takes what it takes, half an hour), and each scenario of the model for at most half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
minutes=${2:-${SOAK_MINUTES:-2}}
export FREEHOLD_SOAK=$((minutes * 60))

say() { printf '\n== %s\n' "$*"; }

for folder in "$build" "$build"/variant-stress "$build"/variant-tsan; do
    # The variants are there after a `make test`; without one, only the release build is soaked.
    [ -e "$folder/CTestTestfile.cmake" ] || continue
    say "soak: $folder, $minutes minutes a test"
    ctest --test-dir "$folder" --output-on-failure --no-tests=error -L stress --timeout $((FREEHOLD_SOAK * 3 + 5400)) \
        </dev/null
done

export FREEHOLD_SOAK=$((minutes * 15))
say "soak: the model, at most $FREEHOLD_SOAK seconds a scenario"
cargo test --locked --manifest-path model/Cargo.toml --target-dir "$build/model" -- --nocapture </dev/null

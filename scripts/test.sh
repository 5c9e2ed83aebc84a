#!/usr/bin/env bash
# Every test: scripts/test.sh [BUILD]. `make test` has installed what is needed.
#
# First what is quick to fail (building, lint), then the release build's tests, then the same sources built in other
# ways. Each of those finds what the others cannot: another compiler, checked and starved allocators,
# undefined behaviour, races. A test with the ctest label `release` is about the shipped library and is left
# out of them; so is whatever times itself.
#
# What a test cannot do on this machine it writes down, and all of that is printed at the end, with the time and the tests of
# each part (scripts/summary.py).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
jobs=$(nproc)

# What scripts/install-deps.sh has brought from Python's package index; the machine's own goes before it.
if [ -x "$build/python/bin/memray" ]; then
    python=$(realpath "$build/python/bin")
    export PATH="$PATH:$python" FREEHOLD_TEST_MEMRAY="${FREEHOLD_TEST_MEMRAY:-$python/python}"
fi

# Each step leaves its record and its skips here, in files with its name. Tests change folders, so the path is a full one.
mkdir -p "$build"
records=$(realpath "$build")/records
rm -rf "$records"
mkdir -p "$records"
part="" step="" begun=0 of_it_building="" tool="" model=""

# begin PART TITLE  ends the part before and notes its seconds: in all, and for building where that is apart from its tests.
begin() {
    [ -z "$part" ] || printf '%s %s %s\n' "$part" $((SECONDS - begun)) "$of_it_building" >>"$records/times"
    part=$1 step=${2-} begun=$SECONDS of_it_building=""
    [ -z "$step" ] || printf '\n== %s\n' "$step"
}

finish() {
    local status=$?
    [ -z "$tool" ] || kill "$tool" 2>/dev/null || true
    [ -z "$model" ] || kill -- "-$model" 2>/dev/null || true
    [ $status = 0 ] || printf '\n== failed: %s\n' "$step"
    begin ""
    python3 scripts/summary.py "$records" || status=1
    exit $status
}
trap finish EXIT

# variant NAME CMAKE-OPTION... builds into a folder of its own below the build folder, and tests there.
variant() {
    local name=$1 folder=$build/variant-$1
    shift
    begin "$name" "build and test: $name"
    cmake -S . -B "$folder" -G Ninja --log-level=WARNING -DFREEHOLD_BENCH=OFF -DFREEHOLD_PROOF=OFF -DFREEHOLD_RELEASE=OFF "$@" \
        >"$folder.log" 2>&1 || { cat "$folder.log"; return 1; }
    cmake --build "$folder" -j "$jobs" >"$folder.log" 2>&1 || { cat "$folder.log"; return 1; }
    of_it_building=$((SECONDS - begun))
    # The suites that run again with blocks sampled: both as shipped, and with every block once checked, is enough.
    local leave_out='^observe\.(1|4k)\.'
    [ "$name" = checked ] && leave_out='^observe\.4k\.'
    # Many of these sleep, and none times itself: one more than there are CPUs.
    run_ctest "$name" "$folder" -LE release -E "$leave_out" -j "$((jobs + 1))"
}

# run_ctest STEP FOLDER OPTION...  A folder without a single test is a mistake, not a success.
run_ctest() {
    local step=$1 folder=$2
    shift 2
    FREEHOLD_SKIPS=$records/$step.skips ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 7200 \
        --output-junit "$records/$step.xml" "$@" </dev/null
}

# run_cargo STEP OPTION...
run_cargo() {
    local step=$1
    shift
    FREEHOLD_SKIPS=$records/$step.skips cargo test --locked "$@" </dev/null 2>&1 | tee "$records/$step.cargo"
}

begin build "build"
# The compiler of the command has work for one CPU only for minutes at its end. The linters need nothing that is built.
make tool BUILD="$build" >"$build/tool.log" 2>&1 &
tool=$!
make libs BUILD="$build"

begin lint "lint, while the command is built"
scripts/lint.sh "$build" 40000
wait "$tool" || { cat "$build/tool.log"; exit 1; }
tool=""

begin release "test: release, $(cc --version | head -n 1)"
run_ctest release "$build" -LE release -j "$jobs"
begin release-beside "test: release, what is only of the shipped library"
# Many of these sleep.
run_ctest release-beside "$build" -L beside -LE soak -j "$((jobs + 2))"
# The others measure memory or time, and have the machine to themselves.
begin release-alone "test: release, one at a time"
run_ctest release-alone "$build" -L release -LE 'soak|beside'

# What the model explores is the same however long it takes, and many of the following tests sleep: it has the CPUs meanwhile, and
# makes way at once for whatever else wants them. `set -m` makes it a process group, to be ended as a whole; a session of its own
# would have a share of the CPUs.
yielding=(nice -n 19)
! chrt --idle 0 true 2>/dev/null || yielding=(chrt --idle 0)
set -m
FREEHOLD_SKIPS=$records/model.skips "${yielding[@]}" cargo test --locked --manifest-path model/Cargo.toml \
    --target-dir "$build/model" </dev/null >"$records/model.cargo" 2>&1 &
model=$!
set +m

variant clang -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
variant checked -DFREEHOLD_CHECKED=ON
variant stress -DFREEHOLD_STRESS=ON -DFREEHOLD_CHECKED=ON
variant ubsan -DFREEHOLD_SANITIZE=undefined
variant tsan -DFREEHOLD_SANITIZE=thread

begin command "test: the command"
# The one that ships.
FREEHOLD_TEST_COMMAND=$(realpath "$build")/freehold
export FREEHOLD_TEST_COMMAND
run_cargo command --manifest-path tools/Cargo.toml

begin crate "test: the Rust crate"
run_cargo crate --manifest-path rust/Cargo.toml --target-dir "$build/rust"

begin model "test: the model, what is left of it"
wait "$model" || { cat "$records/model.cargo"; exit 1; }
model=""
cat "$records/model.cargo"

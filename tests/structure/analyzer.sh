#!/usr/bin/env bash
# How far the static analyzer looks is as scripts/lint.sh says: analyzer.sh ROOT WORK
# Its only source is a function with a fault behind ten thousand calls, which take some 90,000 of the analyzer's nodes: more than
# `make test` gives it, and less than its own number. The scripts are the real ones, and so is the analyzer.
set -euo pipefail
root=$(realpath "$1") work=$(realpath -m "$2")
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
for tool in clang-tidy git make; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
make=$(command -v make)
unset MAKEFLAGS MAKELEVEL MFLAGS
rm -rf "$work"
mkdir -p "$work"/{scripts,src,build,stubs}
cp "$root"/scripts/{lint.sh,compile_commands.py,test.sh,soak.sh,summary.py} "$work/scripts"
cp "$root"/{Makefile,.clang-tidy} "$work"
cd "$work"
cat >src/late.c <<'C'
#define TEN(x) x x x x x x x x x x
int next(int);
int late(void) {
    int sum = 0;
    TEN(TEN(TEN(TEN(sum += next(sum) + 1;))))
    int *none = 0;
    return *none + sum;
}
C
printf '[{"directory": "%s", "file": "src/late.c", "command": "cc -c src/late.c"}]\n' "$PWD" >build/compile_commands.json
touch build/build.ninja
# Nothing is built, and nothing is tested. Because cargo fails, each script ends with its linters.
printf '#!/bin/sh\nexit 0\n' | tee stubs/make >stubs/ctest
printf '#!/bin/sh\nexit 1\n' >stubs/cargo
chmod +x stubs/*
export PATH=$PWD/stubs:$PATH

# look finds|misses COMMAND...
look() {
    local wanted=$1 found=misses
    shift
    ! "$@" >log 2>&1 </dev/null || fail "$*: goes on where a linter fails"
    grep -q '^lint: clang-tidy$' log || { cat log; fail "$*: does not call the analyzer"; }
    if grep -q '^lint: clang-tidy: failed' log; then
        grep -q 'late\.c:7:.*core\.NullDereference' log || { cat log; fail "$*: the analyzer cannot run"; }
        found=finds
    fi
    [ "$found" = "$wanted" ] || { cat log; fail "$*: $found a fault behind many nodes"; }
    echo "$*: $found it"
}
look misses scripts/lint.sh build 1000
look finds scripts/lint.sh build 200000
look misses scripts/test.sh build
look finds scripts/soak.sh build
look finds "$make" lint BUILD=build
cd /
rm -r "$work"

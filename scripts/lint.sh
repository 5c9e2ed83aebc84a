#!/usr/bin/env bash
# Formatting and static analysis: scripts/lint.sh [BUILD] [NODES]. Every finding is an error. BUILD is a configured
# build folder, whose list of compile commands says how each file is really compiled.
#
# NODES is how many states of a function the analyzer looks at before it goes on to the next. Its own number is 225,000, which
# `make lint` and `make soak` leave to it; `make test` gives it a part of that.
# tests/structure/analyzer.sh shows that the number arrives.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
nodes=${2:-}
failed=0

# In an archive that was unpacked: everything in it is in an index for the time of this run.
if [ "$(git rev-parse --show-prefix 2>/dev/null || echo none)" != "" ]; then
    GIT_DIR=$(mktemp -d)
    trap 'rm -rf "$GIT_DIR"' EXIT
    export GIT_DIR GIT_WORK_TREE=$PWD
    git init --quiet
    git add --all
fi

# Says what is checked and remembers a failure, so that one run shows everything that is wrong.
check() {
    local name=$1
    shift
    printf 'lint: %s\n' "$name"
    "$@" || { printf 'lint: %s: failed\n' "$name" >&2; failed=1; }
}

# Files that git knows or would know; what a build made is in neither.
files() { git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r f; do [ -e "$f" ] && echo "$f"; done; }

# What clang-tidy says on stderr is a count of warnings in system headers; when it fails, it may be more.
tidy() {
    local noise status=0 word limit=()
    noise=$(mktemp)
    for word in ${nodes:+-Xclang -analyzer-config -Xclang max-nodes="$nodes"}; do limit+=("--extra-arg=$word"); done
    scripts/compile_commands.py "$build" "$build/lint"
    files 'src/*.c' 'src/*.cc' | grep -v -E '/(windows|darwin)[^/]*\.c$' |
        xargs -r -n 1 -P "$(nproc)" clang-tidy -p "$build/lint" --quiet "${limit[@]}" 2>"$noise" || status=1
    [ "$status" = 0 ] || grep -v 'warnings\? generated' "$noise" >&2 || true
    rm -f "$noise"
    return "$status"
}

format() { files '*.c' '*.h' '*.cc' '*.hpp' | xargs -r clang-format --dry-run -Werror; }

# The rules that need no tool but grep: no work left in the text, no file of more than 600 lines (700 of Rust).
text() {
    local bad=0 file lines most
    if git grep -InE '\b(T''ODO|F''IXME|X''XX|H''ACK)\b' -- . ':!*.lock'; then bad=1; fi
    while read -r file; do
        lines=$(wc -l <"$file")
        # Rust, whose tests stand in the file that they test, gets a little more.
        most=600
        [[ $file == *.rs ]] && most=700
        if [ "$lines" -gt "$most" ]; then printf '%s has %s lines\n' "$file" "$lines"; bad=1; fi
    done < <(files '*.c' '*.h' '*.cc' '*.hpp' '*.rs')
    return "$bad"
}

# What is not text is a picture of the documents: anything else was added by mistake.
binaries() {
    local found
    found=$(comm -23 <(git ls-files -- . ':!docs/pictures/*' ':!corpus/*.trace' | sort) <(git grep --cached -Il '' | sort) |
        while read -r file; do [ ! -s "$file" ] || echo "$file"; done)
    [ -z "$found" ] || { printf 'not text: %s\n' "$found"; return 1; }
}

# `make test` and `make soak` install all that the tests want: each package of tests/packages.txt is in the table of install-deps.sh.
packages() {
    local bad=0 package
    while read -r package _; do
        grep -qE "^(build|test|soak)\\?? .* $package\$" scripts/install-deps.sh || { echo "install-deps.sh lacks $package"; bad=1; }
    done < <(grep -v '^#' tests/packages.txt)
    # Debian's packages are built of a copy, which has every folder that CMakeLists.txt adds unless it is for tests.
    for package in $(sed -n 's/^    add_subdirectory(\([a-z]*\))$/\1/p' CMakeLists.txt); do
        grep -q "^cp -r .* $package .*\$copy" scripts/deb.sh || { echo "scripts/deb.sh does not copy $package"; bad=1; }
    done
    return "$bad"
}

# The library and the command are one product and carry one number.
version() {
    local header tool
    header=$(sed -n 's/^#define FH_VERSION  *"\(.*\)"/\1/p' include/freehold/freehold.h)
    tool=$(sed -n 's/^version = "\(.*\)"/\1/p' tools/Cargo.toml)
    [ -n "$header" ] && [ "$header" = "$tool" ] || { echo "version $header in freehold.h, $tool in Cargo.toml"; return 1; }
}

check "clang-format" format
check "clang-tidy" tidy
check "text" text
check "binaries" binaries
check "packages" packages
check "version" version
check "cargo fmt" cargo fmt --all --manifest-path tools/Cargo.toml --check
check "cargo clippy" cargo clippy --quiet --all-targets --locked --manifest-path tools/Cargo.toml -- -D warnings
check "cargo fmt, the crate" cargo fmt --all --manifest-path rust/Cargo.toml --check
check "cargo clippy, the crate" cargo clippy --quiet --all-targets --locked --manifest-path rust/Cargo.toml \
    --target-dir "$build/rust" -- -D warnings
check "cargo fmt, model" cargo fmt --all --manifest-path model/Cargo.toml --check
check "cargo clippy, model" cargo clippy --quiet --all-targets --locked --manifest-path model/Cargo.toml \
    --target-dir "$build/model" -- -D warnings
exit "$failed"

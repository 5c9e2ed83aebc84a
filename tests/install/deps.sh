#!/usr/bin/env bash
# What scripts/install-deps.sh says when something cannot be had: deps.sh ROOT WORK
# The machine is made of stand-ins: a path with some tools, and package systems that do what each case needs. Each answer
# has to be one line.
set -euo pipefail
root=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
fail() { echo "CHECK FAILED: $*"; exit 1; }

# machine NAME  begins another one: with the tools of any system, and root as the user.
machine() {
    bin=$work/$1/bin
    export BUILD=$work/$1/build
    mkdir -p "$bin"
    local tool
    for tool in bash sh dirname mkdir sed grep head tr cut sort env rm cat tail awk; do
        ln -s "$(command -v $tool)" "$bin/$tool"
    done
    stand_in id 'echo 0'
}
# A link is removed first: what it leads to is the machine's own.
stand_in() {
    rm -f "$bin/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}

# said WANTED-EXIT-CODE ARGUMENT...  runs the script there; what it said is in `line`.
said() {
    local wanted=$1 code=0
    shift
    line=$(env -i HOME="$work/home" BUILD="$BUILD" PATH="$bin" bash "$root/scripts/install-deps.sh" "$@" 2>&1) || code=$?
    [ "$code" = "$wanted" ] || fail "$* ended with $code: $line"
}
one_line() {
    [ "$(wc -l <<<"$line")" = 1 ] || fail "more than a line: $line"
    local part
    for part in "$@"; do
        case "$line" in *"$part"*) ;; *) fail "no '$part' in: $line" ;; esac
    done
}
# A package system of Debian's that knows all packages and installs none.
debian() {
    stand_in apt-get "echo \"\$*\" >>'$work/calls'; $1"
    stand_in apt-cache "$2"
    stand_in dpkg-query 'exit 1'
}

machine mirror-away
debian 'for i in 1 2 3 4 5 6 7 8 9; do echo "Err:$i http://mirror stable"; echo "W: Failed to fetch http://mirror/$i  Could not resolve"; done; exit 0' \
    'echo "  Candidate: 1.90"'
said 1 build
one_line 'no package mirror can be reached (Failed to fetch http://mirror/1' 'Missing: gcc g++' cargo-web
[ "$(grep -c Err: "$BUILD/deps.log")" = 9 ] || fail "the log does not have what apt-get said"

machine no-such-package
debian 'case "$*" in *update*) echo "Hit:1 http://mirror stable";; *) echo "W: a word"; echo "E: Unable to locate package gcc"; exit 100;; esac' \
    'echo "  Candidate: 1.90"'
stand_in sh true # the policy of services is the machine's
said 1 build
case "$line" in *"could not install gcc"*": Unable to locate package gcc (all of it is in "*) ;; *) fail "$line" ;; esac

machine no-sudo
debian 'exit 1' 'echo "  Candidate: 1.90"'
stand_in id 'echo 1000'
said 1 build demo
one_line 'no sudo' 'as root: apt-get install -y --no-install-recommends gcc g++' redis-server cargo-web
stand_in sudo 'echo "a password is required" >&2; exit 1'
said 1 build demo
one_line 'it refused' 'as root: apt-get install -y --no-install-recommends gcc g++' redis-server

for system in "dnf|sudo dnf install gcc gcc-c++|valkey-compat-redis" "pacman|sudo pacman -S --needed gcc|rust" "apk|sudo apk add gcc g++|cargo rust" \
    "zypper|sudo zypper install gcc gcc-c++|cargo rust" "brew|brew install gcc|rust" "none|what Debian calls: gcc g++|rustup"; do
    IFS='|' read -r manager command rust <<<"$system"
    machine "other-$manager"
    [ "$manager" = none ] || stand_in "$manager" 'exit 1'
    said 1 build demo
    one_line 'there is no apt-get here' "$command" "$rust"
done

# What is only worth having: no error, and no second question.
machine worth
debian 'echo "Hit:1 http://mirror stable"' 'echo "  Candidate: (none)"'
stand_in python3 true
: >"$work/calls"
said 0 bench
one_line 'going on without redis-server' libjemalloc2
[ -s "$work/calls" ] || fail "nothing was asked"
: >"$work/calls"
said 0 bench
[ -z "$line" ] && [ ! -s "$work/calls" ] || fail "asked a second time: $line $(cat "$work/calls")"

# Too old: said before anything is built.
machine old
for tool in gcc g++ cc c++ ld make ninja pkg-config git; do stand_in $tool true; done
for tool in cargo rustc; do stand_in $tool "echo $tool 1.90.0"; done
stand_in cmake 'echo "cmake version 3.22.1"'
for words in "build" "--check build"; do
    # Two words are meant.
    # shellcheck disable=SC2086
    said 1 $words
    one_line 'CMake 3.22.1 is too old: 3.25 or newer'
done
stand_in cmake 'echo "cmake version 3.31.0"'
said 0 build
[ -z "$line" ] || fail "nothing is missing, and it says: $line"
stand_in cc '[ "$1" != --version ] || { echo "cc 4.4"; exit 0; }; exit 1'
said 1 --check build
one_line 'the C compiler is too old' 'cc 4.4'
rm "$bin/cmake" "$bin/cc" "$bin/gcc"
said 1 --check build
one_line "'make deps' installs it" 'Missing: gcc' 'cmake'

# What Python's index has is tried once, and never fatal.
machine no-index
for tool in clang clang-format clang-tidy clang++; do stand_in "$tool" true; done
stand_in python3 'echo "no route to the index" >&2; exit 1'
said 0 test
case "$line" in *"going on without python-packages: memray and conan could not be installed"*) ;; *) fail "$line" ;; esac
grep -q 'no route to the index' "$BUILD/deps.log" || fail "the log does not have what it said"
said 0 test
[ -z "$line" ] || fail "asked again: $line"

# The front door names every target that a person may want.
for target in $(sed -n 's/^\.PHONY: //p' "$root/Makefile"); do
    case $target in all | libraries) continue ;; esac
    make -C "$root" --no-print-directory help | grep -qE "make $target( |\$)" || fail "make help does not know $target"
done

# And where its own needs are not there.
machine front
for tool in make uname; do ln -s "$(command -v $tool)" "$bin/$tool"; done
rm "$bin/bash"
answer=$(env -i PATH="$bin" make -C "$root" --no-print-directory help 2>&1) && fail "without bash: $answer"
grep -q "bash is missing.*apk add bash" <<<"$answer" || fail "without bash: $answer"
rm "$bin/uname"
stand_in uname 'echo Darwin'
answer=$(env -i PATH="$bin" make -C "$root" --no-print-directory help 2>&1) && fail "on another system: $answer"
grep -q "Freehold runs on Linux; on Darwin" <<<"$answer" || fail "on another system: $answer"
echo "each answer is a line"

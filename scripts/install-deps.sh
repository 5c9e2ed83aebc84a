#!/usr/bin/env bash
# Installs what is missing, and only that: scripts/install-deps.sh GROUP...
#
#   build   compilers, CMake, Ninja, a Rust tool chain for edition 2024
#   demo    what `make demo` runs
#   test    what the tests run: linters, clang, musl, and the real programs
#   soak    larger programs, which only the soak runs
#   bench   what the benchmarks compare with
#
# When everything is there, this only looks, and takes no time. Otherwise it needs to be root or to have
# sudo, and a Debian or Ubuntu package system; elsewhere it says what to install by hand.
set -euo pipefail

# The oldest Rust that knows edition 2024.
rust_minimum="1.85.0"

# One line each: a group, what tells that it is there, the package that brings it. A word with a slash is a
# file, anything else is a command. What begins with `pkg:` asks the package system; it is worth having but
# another release may not know it by this name, and then it is left out with a word about it.
needs="
build gcc                  gcc
build g++                  g++
build /usr/include/stdio.h libc6-dev
build ld                   binutils
build make                 make
build cmake                cmake
build ninja                ninja-build
build pkg-config           pkg-config
build git                  git
demo  redis-server         redis-server
demo  redis-benchmark      redis-tools
demo  redis-cli            redis-tools
test  clang                clang
test  clang-format         clang-format
test  clang-tidy           clang-tidy
test  clang++              clang
test  pkg:libclang-rt-14-dev libclang-rt-14-dev
test  musl-gcc             musl-tools
test  valgrind             valgrind
test  strace               strace
test  file                 file
test  setcap               libcap2-bin
test  prlimit              util-linux
test  python3              python3
test  pkg:libpython3.11-testsuite libpython3.11-testsuite
test  sqlite3              sqlite3
test  perl                 perl
test  lua5.4               lua5.4
test  gs                   ghostscript
test  redis-server         redis-server
test  nginx                nginx-light
test  pkg:php-fpm          php-fpm
test  pkg:postgresql       postgresql
test  redis-benchmark      redis-tools
test  node                 nodejs
test  php                  php-cli
test  tmux                 tmux
test  go                   golang-go
test  zsh                  zsh
test  fish                 fish
test  pkg:python3-prometheus-client python3-prometheus-client
soak  vsftpd               vsftpd
soak  ffmpeg               ffmpeg
soak  javac                default-jdk-headless
bench redis-server         redis-server
bench redis-benchmark      redis-tools
bench python3              python3
bench sqlite3              sqlite3
bench lua5.4               lua5.4
bench gs                   ghostscript
bench node                 nodejs
bench clang                clang
bench clang++              clang
bench ruby                 ruby
bench bc                   bc
bench pkg:berkeley-abc     berkeley-abc
bench pkg:python3-pip      python3-pip
bench redis-cli            redis-tools
bench perl                 perl
bench pkg:libtcmalloc-minimal4 libtcmalloc-minimal4
bench pkg:libtbbmalloc2    libtbbmalloc2
bench pkg:libjemalloc2     libjemalloc2
bench pkg:libmimalloc2.0   libmimalloc2.0
"

say() { printf 'install-deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# True when the thing that a line of the table names is there.
present() {
    case "$1" in
    pkg:*) dpkg-query -W -f '${Status}' "${1#pkg:}" 2>/dev/null | grep -q 'ok installed' ;;
    */*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

# Runs a command as root, asking sudo only when that is needed.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -E "$@"
    else
        die "not root and no sudo; please run as root: $*"
    fi
}

# A mirror that is busy for a moment should not end the whole command.
retry() {
    local try
    for try in 1 2 3; do
        "$@" && return 0
        [ "$try" = 3 ] || { say "failed, trying again: $*"; sleep $((try * 3)); }
    done
    return 1
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null; }

refreshed=no
refresh() {
    [ "$refreshed" = no ] || return 0
    command -v apt-get >/dev/null 2>&1 || return 1
    retry apt update || return 1
    refreshed=yes
}

# Debian starts a server as soon as it is installed. The demo and the tests start their own, so for the time
# of the installation the package system is told to start nothing, unless the machine has a policy already.
policy=/usr/sbin/policy-rc.d
placed_policy=no
hold_services() {
    [ -e "$policy" ] && return 0
    as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
    placed_policy=yes
}
release_services() { [ "$placed_policy" = no ] || as_root rm -f "$policy"; }
trap release_services EXIT

install_packages() {
    refresh || die "cannot use apt-get here; please install by hand: $*"
    hold_services
    # Nothing that the machine has may be removed for our sake.
    retry apt install -y --no-install-recommends --no-remove "$@"
}

# $1 is at least $2, as version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The version a Rust tool reports, or nothing when it is not there or does not run.
version_of() { "$1" --version 2>/dev/null | sed -n '1s/^[a-z-]* \([0-9][0-9.]*\).*/\1/p' || true; }

rust_is_new_enough() {
    local cargo rustc
    cargo=$(version_of cargo)
    rustc=$(version_of rustc)
    [ -n "$cargo" ] && [ -n "$rustc" ] && at_least "$cargo" "$rust_minimum" && at_least "$rustc" "$rust_minimum"
}

# The formatter and the linter come apart from the compiler; only the tests want them.
rust_tools_present() { cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; }

ensure_rust() {
    local with_tools=$1
    export PATH="$PATH:$HOME/.cargo/bin"
    if rust_is_new_enough && { [ "$with_tools" = no ] || rust_tools_present; }; then
        return 0
    fi
    # An existing rustup belongs to the user and is the way they expect new versions to come.
    if command -v rustup >/dev/null 2>&1; then
        say "asking rustup for a tool chain of at least $rust_minimum"
        rust_is_new_enough || retry rustup toolchain install stable --profile minimal
        rust_is_new_enough || rustup default stable
        [ "$with_tools" = no ] || retry rustup component add rustfmt clippy
    else
        say "installing a Rust tool chain of at least $rust_minimum"
        install_rust_packages "$with_tools"
    fi
    rust_is_new_enough || die "no Rust of at least $rust_minimum could be installed; please install one with rustup"
    [ "$with_tools" = no ] || rust_tools_present || die "cargo fmt or cargo clippy is missing for $(rustc --version)"
}

# Debian 12 keeps a current compiler, made for its browsers, beside the old one; later releases have a new
# one under the usual name, or rustup itself.
install_rust_packages() {
    local with_tools=$1 set
    refresh || die "cannot use apt-get here; please install Rust $rust_minimum or newer with rustup"
    for set in "cargo-web rustc-web:rustfmt-web rust-web-clippy" "cargo rustc:rustfmt rust-clippy"; do
        local packages=${set%%:*}
        local candidate
        candidate=$(apt-cache policy "${packages%% *}" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9][0-9.]*\).*/\1/p')
        [ -n "$candidate" ] && at_least "$candidate" "$rust_minimum" || continue
        [ "$with_tools" = no ] || packages="$packages ${set#*:}"
        # The list is words on purpose.
        # shellcheck disable=SC2086
        install_packages $packages && return 0
    done
    install_packages rustup && retry rustup default stable
}

# Leaves out of "$@" the `pkg:` names that this release does not have, and the mark of the others.
known_packages() {
    local package
    for package in "$@"; do
        case "$package" in
        pkg:*)
            package=${package#pkg:}
            if [ -z "$(apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p')" ]; then
                say "this release has no $package; going on without it"
                continue
            fi
            ;;
        esac
        printf ' %s' "$package"
    done
}

main() {
    [ $# -gt 0 ] || die "usage: scripts/install-deps.sh build|demo|test|soak|bench ..."
    local wanted=" $* " missing="" group probe package with_tools=no
    while read -r group probe package; do
        [ -n "$group" ] || continue
        case "$wanted" in *" $group "*) ;; *) continue ;; esac
        present "$probe" && continue
        case "$probe" in pkg:*) package=pkg:$package ;; esac
        case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
    done <<<"$needs"
    if [ -n "$missing" ]; then
        refresh || die "cannot use apt-get here; please install by hand:$missing"
        # shellcheck disable=SC2086
        missing=$(known_packages $missing)
    fi
    if [ -n "$missing" ]; then
        say "installing:$missing"
        # shellcheck disable=SC2086
        install_packages $missing || die "could not install:$missing"
    fi
    case "$wanted" in *" test "*) with_tools=yes ;; esac
    case "$wanted" in *" build "*) ensure_rust "$with_tools" ;; esac
}

main "$@"

#!/usr/bin/env bash
# Installs what is missing, and only that: scripts/install-deps.sh [--check] GROUP...
#
#   build   compilers, CMake, Ninja, a Rust tool chain for edition 2024
#   demo    what `make demo` runs
#   test    what the tests run: linters, clang, musl, and the real programs
#   soak    larger programs, which only the soak runs
#   bench   what the benchmarks compare with
#
# When everything is there, this only looks, and takes no time. Otherwise it needs to be root or to have sudo, and a Debian or
# Ubuntu package system; elsewhere it says what to install and by which command. With --check it installs nothing.
# What the package system says is in $BUILD/deps.log; what goes wrong is one line here.
set -euo pipefail

# The oldest Rust that knows edition 2024, and the CMake that CMakeLists.txt asks for.
rust_minimum="1.85.0"
cmake_minimum="3.25"

build=${BUILD:-build}
log=$build/deps.log
# What is only worth having, and could not be had: it is not asked for a second time.
tried=$build/deps-tried

# One line each: a group, what tells that it is there, the package that brings it. A group with `?` is only worth having:
# what uses it says that it is left out. A word with a slash is a file, one that begins with `pkg:` asks the package system,
# and anything else is a command.
needs="
build  gcc                  gcc
build  g++                  g++
build  /usr/include/stdio.h libc6-dev
build  ld                   binutils
build  make                 make
build  cmake                cmake
build  ninja                ninja-build
build  pkg-config           pkg-config
build  git                  git
demo   redis-server         redis-server
demo   redis-benchmark      redis-tools
demo   redis-cli            redis-tools
demo   python3              python3
test   clang                clang
test   clang-format         clang-format
test   clang-tidy           clang-tidy
test   clang++              clang
test?  pkg:libclang-rt-14-dev libclang-rt-14-dev
test?  musl-gcc             musl-tools
test?  valgrind             valgrind
test?  strace               strace
test?  heaptrack            heaptrack
test?  file                 file
test?  groff                groff-base
test?  pkg:libapr1          libapr1
test?  setcap               libcap2-bin
test?  prlimit              util-linux
test   python3              python3
test?  pkg:libpython3.11-testsuite libpython3.11-testsuite
test?  sqlite3              sqlite3
test?  perl                 perl
test?  lua5.4               lua5.4
test?  ruby                 ruby
test?  gawk                 gawk
test?  jq                   jq
test?  gs                   ghostscript
test?  redis-server         redis-server
test?  nginx                nginx-light
test?  gunicorn             gunicorn
test?  uvicorn              uvicorn
test?  pkg:php-fpm          php-fpm
test?  pkg:postgresql       postgresql
test?  redis-benchmark      redis-tools
test?  node                 nodejs
test?  php                  php-cli
test?  tmux                 tmux
test?  go                   golang-go
test?  zsh                  zsh
test?  debuginfod-find      debuginfod
test?  xz                   xz-utils
test?  fish                 fish
test?  pkg:python3-prometheus-client python3-prometheus-client
test?  pkg:python3-venv     python3-venv
soak?  vsftpd               vsftpd
soak?  dh                   debhelper
soak?  lintian              lintian
soak?  dpkg-source          dpkg-dev
soak?  debootstrap          debootstrap
soak?  ffmpeg               ffmpeg
soak?  javac                default-jdk-headless
soak?  mariadbd             mariadb-server
soak?  tor                  tor
soak?  tclsh                tcl
soak?  /usr/include/zlib.h  zlib1g-dev
soak?  chronyd              chrony
soak?  gst-launch-1.0       gstreamer1.0-tools
soak?  pkg:gstreamer1.0-plugins-base gstreamer1.0-plugins-base
soak?  pkg:gstreamer1.0-plugins-good gstreamer1.0-plugins-good
soak?  soffice              libreoffice-writer-nogui
soak?  pkg:libreoffice-calc-nogui libreoffice-calc-nogui
soak?  chromium-headless-shell chromium-headless-shell
bench? redis-server         redis-server
bench? redis-benchmark      redis-tools
bench  python3              python3
bench? sqlite3              sqlite3
bench? lua5.4               lua5.4
bench? gs                   ghostscript
bench? node                 nodejs
bench? clang                clang
bench? clang++              clang
bench? ruby                 ruby
bench? bc                   bc
bench? pkg:berkeley-abc     berkeley-abc
bench? pkg:python3-pip      python3-pip
bench? redis-cli            redis-tools
bench? perl                 perl
bench? pkg:libtcmalloc-minimal4 libtcmalloc-minimal4
bench? pkg:libtbbmalloc2    libtbbmalloc2
bench? pkg:libjemalloc2     libjemalloc2
bench? pkg:libmimalloc2.0   libmimalloc2.0
"

# The same under the names of other package systems. `-` is nothing: it comes with the others. Fedora (41) and Arch (2025)
# have Valkey in place of Redis, with the commands under both names.
elsewhere="
probe                dnf                pacman   apk               zypper             brew
gcc                  gcc                gcc      gcc               gcc                gcc
g++                  gcc-c++            gcc      g++               gcc-c++            gcc
/usr/include/stdio.h glibc-devel        glibc    musl-dev          glibc-devel        -
ld                   binutils           binutils binutils          binutils           binutils
make                 make               make     make              make               make
cmake                cmake              cmake    cmake             cmake              cmake
ninja                ninja-build        ninja    samurai           ninja              ninja
pkg-config           pkgconf-pkg-config pkgconf  pkgconf           pkgconf-pkg-config pkgconf
git                  git                git      git               git                git
cargo                cargo              rust     cargo             cargo              rust
rustc                rust               rust     rust              rust               rust
redis-server         valkey-compat-redis valkey   redis             redis              redis
redis-benchmark      valkey-compat-redis valkey   redis             redis              redis
redis-cli            valkey-compat-redis valkey   redis             redis              redis
clang                clang              clang    clang             clang              llvm
clang++              clang              clang    clang             clang              llvm
clang-format         clang-tools-extra  clang    clang-extra-tools clang-tools        llvm
clang-tidy           clang-tools-extra  clang    clang-extra-tools clang-tools        llvm
python3              python3            python   python3           python3            python
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

# Words without those that came before.
unique() {
    local word seen=" "
    for word in "$@"; do
        case "$seen" in *" $word "*) continue ;; esac
        seen="$seen$word "
    done
    seen=${seen# }
    printf '%s' "${seen% }"
}

# ── Other package systems, and other users ──────────────────────────────────────────────────────────────────────────

# What the user types to install the packages of these probes; nothing where the package system is none that is known.
command_elsewhere() {
    local manager column=1 probe names="" install
    for manager in dnf pacman apk zypper brew none; do
        column=$((column + 1))
        command -v "$manager" >/dev/null 2>&1 && break
    done
    case "$manager" in
    dnf) install="sudo dnf install" ;;
    pacman) install="sudo pacman -S --needed" ;;
    apk) install="sudo apk add" ;;
    zypper) install="sudo zypper install" ;;
    brew) install="brew install" ;;
    *) return 0 ;;
    esac
    for probe in "$@"; do
        names="$names $(awk -v probe="$probe" -v column="$column" '$1 == probe && $column != "-" { print $column }' <<<"$elsewhere")"
    done
    # The list is words on purpose.
    # shellcheck disable=SC2086
    printf '%s %s' "$install" "$(unique $names)"
}

# Ends with what is missing and how it comes. $1 says why it does not come by itself, $2 are the packages by Debian's
# names and $3 the probes.
die_missing() {
    local how=""
    if command -v apt-get >/dev/null 2>&1; then
        how="as root: apt-get install -y --no-install-recommends $2"
    else
        # shellcheck disable=SC2086
        how=$(command_elsewhere $3)
        [ -n "$how" ] || how="install by hand what Debian calls: $2"
    fi
    die "$1 Missing: $3. To go on, $how"
}

# True when a command can be run as root; asks for a password only where somebody can type it.
may_be_root() {
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null 2>&1 || return 1
    sudo -n true 2>/dev/null && return 0
    [ -t 2 ] && sudo -v
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -E "$@"; fi
}

# ── Debian's package system ─────────────────────────────────────────────────────────────────────────────────────────

# All that it says goes into the log: with a mirror away that is hundreds of lines.
apt() {
    mkdir -p "$build"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 \
        -o Acquire::http::Timeout=30 "$@" </dev/null >>"$log" 2>&1
}

# The first complaint since the last refresh, without its mark; errors go before warnings.
complaint() {
    local mark line=""
    for mark in E W; do
        [ -n "$line" ] || line=$(grep -s "^$mark: " "$log" | sed -n '1s/^..//p' | tr -s ' ' | cut -c 1-200) || true
    done
    printf '%s' "${line# }"
}

# apt-get's exit code is 0 also when it has reached no mirror at all, so its lines are read. A mirror among others that is
# away does not matter until a package is missing.
refreshed=no
refresh() {
    [ "$refreshed" = no ] || return 0
    mkdir -p "$build"
    : >"$log"
    apt update || true
    grep -qE '^(Hit|Get):' "$log" || return 1
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

# Nothing that the machine has may be removed for our sake.
install_packages() {
    hold_services
    apt install -y --no-install-recommends --no-remove "$@"
}

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p'; }

# One call for all of them, and one for each if that fails. Never fatal.
install_worth_having() {
    local package left="" known=""
    for package in "$@"; do
        if [ -n "$(candidate "$package")" ]; then known="$known $package"; else left="$left $package"; fi
    done
    if [ -n "$known" ]; then
        say "installing what is worth having:$known"
        # shellcheck disable=SC2086
        install_packages $known || for package in $known; do
            install_packages "$package" || left="$left $package"
        done
    fi
    give_up "$left" "this system does not have them, or they could not be installed"
}

# Goes on without some packages, and does not ask for them again. Removing the file named is asking again.
give_up() {
    [ -n "${1// /}" ] || return 0
    say "going on without$1: $2 ($tried remembers that)"
    mkdir -p "$build"
    tr -s ' ' '\n' <<<"$1" | sed '/^$/d' >>"$tried"
}

# ── Python's package index ──────────────────────────────────────────────────────────────────────────────────────────

# What only it has, for the tests: in a folder of the build's own. Worth having.
python_packages="memray==1.20.0 conan==2.34.0"
python=$build/python

ensure_python_packages() {
    if [ -x "$python/bin/memray" ] && [ -x "$python/bin/conan" ]; then return 0; fi
    ! grep -qsx python-packages "$tried" || return 0
    say "installing into $python: $python_packages"
    mkdir -p "$build"
    # The list is words on purpose.
    # shellcheck disable=SC2086
    { python3 -m venv "$python" &&
        "$python/bin/pip" install --quiet --disable-pip-version-check --retries 2 --timeout 30 $python_packages; } \
        >>"$log" 2>&1 </dev/null || give_up " python-packages" "memray and conan could not be installed"
}

# ── Versions ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
    if rust_is_new_enough && { [ "$with_tools" = no ] || rust_tools_present; }; then
        return 0
    fi
    # An existing rustup belongs to the user and is the way they expect new versions to come.
    if command -v rustup >/dev/null 2>&1; then
        say "asking rustup for a tool chain of at least $rust_minimum"
        rust_is_new_enough || rustup toolchain install stable --profile minimal
        rust_is_new_enough || rustup default stable
        [ "$with_tools" = no ] || rustup component add rustfmt clippy
    else
        say "installing a Rust tool chain of at least $rust_minimum"
        install_rust_packages "$with_tools" || die "Rust could not be installed: $(complaint) (all of it is in $log)"
    fi
    rust_is_new_enough || die "no Rust of at least $rust_minimum could be installed; please install one with rustup"
    [ "$with_tools" = no ] || rust_tools_present || die "cargo fmt or cargo clippy is missing for $(rustc --version)"
}

# Debian 12 keeps a current compiler, made for its browsers, beside the old one; later releases have a new
# one under the usual name, or rustup itself.
rust_packages() {
    local with_tools=$1 set packages version
    for set in "cargo-web rustc-web:rustfmt-web rust-web-clippy" "cargo rustc:rustfmt rust-clippy"; do
        packages=${set%%:*}
        version=$(candidate "${packages%% *}" | sed -n 's/^\([0-9][0-9.]*\).*/\1/p')
        [ -n "$version" ] && at_least "$version" "$rust_minimum" || continue
        [ "$with_tools" = no ] || packages="$packages ${set#*:}"
        printf '%s' "$packages"
        return 0
    done
    printf 'rustup'
}

install_rust_packages() {
    local packages
    packages=$(rust_packages "$1")
    # The list is words on purpose.
    # shellcheck disable=SC2086
    install_packages $packages || return 1
    [ "$packages" != rustup ] || rustup default stable
}

# Said before anything is built, because what CMake and a compiler say themselves comes late or is long. The compilers are
# asked about files of ours, which need what is the newest.
check_versions() {
    local found
    if command -v cmake >/dev/null 2>&1; then
        found=$(cmake --version | sed -n '1s/^cmake version \([0-9.]*\).*/\1/p')
        at_least "${found:-0}" "$cmake_minimum" ||
            die "CMake $found is too old: $cmake_minimum or newer is needed, as 'pip install cmake' and cmake.org have it"
    fi
    local flags="-fsyntax-only -D_GNU_SOURCE -Iinclude -Isrc"
    local cc=${CC:-cc} cxx=${CXX:-c++}
    # shellcheck disable=SC2086
    if command -v "$cc" >/dev/null 2>&1 && ! $cc -std=c11 $flags src/cache/alloc.c 2>/dev/null; then
        die "the C compiler is too old for C11 with atomics: $($cc --version 2>/dev/null | head -n 1); CC=... names another"
    fi
    # shellcheck disable=SC2086
    if command -v "$cxx" >/dev/null 2>&1 && ! $cxx -std=c++17 $flags src/api/new_failed.cc 2>/dev/null; then
        die "the C++ compiler is too old for C++17: $($cxx --version 2>/dev/null | head -n 1); CXX=... names another"
    fi
}

# ── What is missing ─────────────────────────────────────────────────────────────────────────────────────────────────

# Who only builds may have another compiler, and needs no git.
needed_to_build() {
    case "$1" in
    gcc | /usr/include/stdio.h) ! command -v "${CC:-cc}" >/dev/null 2>&1 ;;
    g++) ! command -v "${CXX:-c++}" >/dev/null 2>&1 ;;
    cmake | ninja) ;;
    *) return 1 ;;
    esac
}

# Fills `packages` and `probes` with what has to be there, and `worth` with what need not.
packages="" probes="" worth="" check=no
find_missing() {
    local wanted=" $* " group probe package
    while read -r group probe package; do
        [ -n "$group" ] || continue
        case "$wanted" in *" ${group%\?} "*) ;; *) continue ;; esac
        present "$probe" && continue
        [ "$check" = no ] || needed_to_build "$probe" || continue
        if [ "$group" = "${group%\?}" ]; then
            packages="$packages $package" probes="$probes $probe"
        elif ! grep -qsx "$package" "$tried"; then
            worth="$worth $package"
        fi
    done <<<"$needs"
    # shellcheck disable=SC2086
    packages=$(unique $packages) worth=$(unique $worth)
    probes=${probes# }
}

main() {
    local with_tools=no rust_missing=no all
    [ "${1-}" != --check ] || { check=yes; shift; }
    [ $# -gt 0 ] || die "usage: scripts/install-deps.sh [--check] build|demo|test|soak|bench ..."
    cd "$(dirname "$0")/.."
    export PATH="$PATH:$HOME/.cargo/bin"
    find_missing "$@"
    case " $* " in *" test "*) with_tools=yes ;; esac
    case " $* " in *" build "*)
        if ! rust_is_new_enough || { [ "$with_tools" = yes ] && ! rust_tools_present; }; then rust_missing=yes; fi
        ;;
    esac
    all=$packages
    if [ "$rust_missing" = yes ] && ! command -v rustup >/dev/null 2>&1; then
        all="$all $(rust_packages "$with_tools")" probes="$probes cargo rustc"
    fi
    all=${all# } probes=${probes# }

    if [ "$check" = yes ]; then
        [ -z "$probes" ] || die_missing "not everything is here, and 'make deps' installs it." "$all" "$probes"
    elif ! command -v apt-get >/dev/null 2>&1; then
        [ -z "$probes" ] || die_missing "there is no apt-get here." "$all" "$probes"
        give_up "${worth:+ $worth}" "there is no apt-get here"
    elif [ -n "$all$worth" ]; then
        install_missing "$all" "$with_tools" "$rust_missing"
    elif [ "$rust_missing" = yes ]; then
        ensure_rust "$with_tools"
    fi
    check_versions
    # Of the tests: who has no Python by now has been told.
    [ "$with_tools" = no ] || [ "$check" = yes ] || ensure_python_packages
}

# With apt-get. $1 is all that has to be there, Rust included.
install_missing() {
    local all=$1 with_tools=$2 rust_missing=$3
    if ! may_be_root; then
        [ -z "$all" ] || die_missing "not root, and no sudo, or it refused." "$all" "$probes"
        give_up " $worth" "not root, and no sudo, or it refused"
        return 0
    fi
    if ! refresh; then
        [ -z "$all" ] || die "no package mirror can be reached ($(complaint)). Missing: $all (all of it is in $log)"
        give_up " $worth" "no package mirror can be reached"
        return 0
    fi
    if [ -n "$packages" ]; then
        say "installing: $packages (what the package system says is in $log)"
        # shellcheck disable=SC2086
        install_packages $packages || die "could not install $packages: $(complaint) (all of it is in $log)"
    fi
    [ "$rust_missing" = no ] || ensure_rust "$with_tools"
    # shellcheck disable=SC2086
    [ -z "$worth" ] || install_worth_having $worth
}

main "$@"

#!/usr/bin/env bash
# The two commands on systems that have nothing: scripts/bare.sh [BUILD] [SUITE...]
#
# For each suite (bookworm, trixie) a minimal Debian is laid out by debootstrap below BUILD/bare, git and make are put into it,
# as README.md asks, the commit is cloned, and there
#
#   make demo         installs what is missing without a question, builds, and runs
#   freehold doctor   looks at the machine
#   make install      places what was built, which then runs from there
#
# What is said is in BUILD/bare/SUITE.log. The demo's table is printed. Needs root, debootstrap and a mirror: a suite that
# cannot be tried is counted as skipped, with its reason. A quarter of an hour and 3 GB for each; both go away at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -lt 1 ] || shift
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)
mkdir -p "$build/bare"
place=$(realpath "$build/bare")
passed=0 failed=0 skipped=0

say() { printf 'bare: %s\n' "$*"; }
skip() { say "$suite: skipped: $*"; skipped=$((skipped + 1)); }
# Where this machine gets its own packages from serves the bare ones too.
mirror=${BARE_MIRROR:-$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1 || true)}

leave() {
    local mounted
    for mounted in dev/shm proc; do
        ! mountpoint -q "$root/$mounted" || umount "$root/$mounted"
    done
    rm -rf --one-file-system "$root"
}

# inside COMMAND...  in the bare system, with its path and without anything of this one's environment.
inside() {
    env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" </dev/null
}

# What a machine has that is not in a file: addresses of names, /proc, shared memory, and the files of /dev that programs need.
furnish() {
    cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
    [ ! -e /etc/apt/apt.conf.d ] || cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
    mount -t proc proc "$root/proc"
    mkdir -p "$root/dev/shm"
    mount -t tmpfs tmpfs "$root/dev/shm"
}

# Each step by itself; the first that fails is named.
try() {
    step="debootstrap $suite"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >>"$log" 2>&1 || return 1
    furnish
    step="installing git and make"
    inside apt-get install -y -q --no-install-recommends git make ca-certificates >>"$log" 2>&1 || return 1
    # Where a proxy stands between, this machine trusts it, and so must the bare one.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
    step="cloning"
    git clone -q --no-hardlinks . "$root/freehold" >>"$log" 2>&1 || return 1
    step="make demo"
    inside make -C /freehold demo >"$place/$suite.demo" 2>>"$log" || return 1
    step="freehold doctor"
    inside /freehold/build/freehold doctor >>"$log" 2>&1 || return 1
    step="make install"
    inside make -C /freehold install >>"$log" 2>&1 || return 1
    inside sh -c 'freehold --version && LD_PRELOAD=libfreehold.so true' >>"$log" 2>&1
}

for suite in "${suites[@]}"; do
    root=$place/$suite log=$place/$suite.log
    : >"$log"
    [ "$(id -u)" = 0 ] || { skip "chroot needs root"; continue; }
    command -v debootstrap >/dev/null || { skip "no debootstrap: apt-get install debootstrap"; continue; }
    [ -n "$mirror" ] || { skip "no mirror is known: BARE_MIRROR=URL names one"; continue; }
    rm -rf --one-file-system "$root"
    trap leave EXIT
    say "$suite, from $mirror, begins"
    begun=$SECONDS
    if try; then
        passed=$((passed + 1))
        cat "$place/$suite.demo"
        say "$suite: passed after $((SECONDS - begun)) s, $(du -sm "$root/freehold/build" | cut -f 1) MB in build/"
    elif [ "$step" = "debootstrap $suite" ]; then
        skip "debootstrap: $(grep -E '^[EW]: ' "$log" | head -n 1 || true) (all of it is in $log)"
    else
        failed=$((failed + 1))
        say "$suite: failed: $step"
        tail -n 20 "$log"
    fi
    leave
    trap - EXIT
done
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]

# Shared by the program tests: NAME.sh LIBFREEHOLD.SO WORK-FOLDER
#
# Each test must first show that Freehold is really in the process, for nothing is easier than a test of the system's
# own allocator: by the banner of FREEHOLD=verbose=1, or by the process's own memory map.
set -euo pipefail
library=$(realpath "$1") work=$2
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")
long=${FREEHOLD_TEST_PROGRAMS:-}

. "$(dirname "${BASH_SOURCE[0]}")/../support/skip.sh"
say() { printf '%s\n' "$*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# need PROGRAM PACKAGE: the program's path, or the test is skipped. What /usr/local or a version manager put before
# the distribution's own may be a script that starts something else; that is fine, the preload goes through it.
need() { command -v "$1" >/dev/null 2>&1 || skip "no $1 (package $2)"; }

# under COMMAND...: runs it with Freehold. Nothing is printed by the library, so that output can be compared.
under() { LD_PRELOAD=$library "$@"; }

# active COMMAND...: the command, run once, must print the banner, and must work.
active() {
    LD_PRELOAD=$library FREEHOLD=verbose=1 "$@" >"$work/active.out" 2>"$work/active.err" </dev/null ||
        { cat "$work/active.err"; die "$1 does not run under Freehold"; }
    grep -q '^freehold: version .* is active' "$work/active.err" || die "Freehold is not active in $1"
    say "active in: $1"
}

# same NAME COMMAND...: the output with Freehold must be the output without.
same() {
    local name=$1
    shift
    "$@" >"$work/$name.without" 2>&1 </dev/null || { cat "$work/$name.without"; skip "$name fails without Freehold"; }
    under "$@" >"$work/$name.with" 2>&1 </dev/null || { tail -n 40 "$work/$name.with"; die "$name"; }
    cmp "$work/$name.without" "$work/$name.with" || die "$name: the output differs"
    say "same output: $name"
}

# fetch_sources PACKAGE...: their source packages, unpacked with Debian's patches, in $work/source. The machine's own list of
# sources is used, with the source packages; the lists are kept here and nothing of the machine changes.
fetch_sources() {
    mkdir -p "$work/parts" "$work/lists/partial" "$work/source"
    local file
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types: *deb$/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] && sed -n 's/^deb /deb-src /p' "$file"
    done >"$work/parts/more.list" || true
    local options=(-qq -o "Dir::Etc::sourcelist=$work/none" -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists")
    (cd "$work/source" && apt-get "${options[@]}" update && apt-get "${options[@]}" source "$@") >"$work/fetch.log" 2>&1 ||
        { tail -n 3 "$work/fetch.log"; return 1; }
}

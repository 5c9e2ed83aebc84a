#!/usr/bin/env bash
# Two releases of one commit have equal bytes: release.sh ROOT WORK short|whole
# The short form has what takes seconds: the sources, and the library as one file. The whole one, in a soak, builds
# everything twice, which takes minutes.
set -euo pipefail
root=$1 work=$2 form=$3
# shellcheck source=tests/support/skip.sh
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }
# Named once: what is committed meanwhile is not compared.
commit=$(git -C "$root" rev-parse --verify --quiet HEAD) || skip "these sources are no git repository, and a release is made of a commit"

options=()
[ "$form" != short ] || options=(--short)
rm -rf "$work"
mkdir -p "$work"
for run in first second; do
    # Times, the umask and the folder differ.
    BUILD=$work/$run.build "$root/scripts/release.sh" "${options[@]}" "$commit" "$work/$run" 2>"$work/$run.log" ||
        fail "the $run run failed: $(cat "$work/$run.log")"
    umask 077
    sleep 1
done
diff -r "$work/first" "$work/second" || fail "two runs differ"
(cd "$work/first" && sha256sum --quiet --check SHA256SUMS) || fail "the sums are not those of the files"
[ "$(cd "$work/first" && sed 's/^[^ ]*  //' SHA256SUMS)" = "$(cd "$work/first" && printf '%s\n' * | grep -vx SHA256SUMS)" ] ||
    fail "not every file has a sum"

archive=$(find "$work/first" -name 'freehold-*.tar.gz' ! -name '*-linux-*' ! -name '*-amalgamation.*')
tar -tzf "$archive" >"$work/names"
grep -q '^freehold-[^/]*/include/freehold/freehold.h$' "$work/names" || fail "the sources are not in $archive"
if [ "$form" = whole ]; then
    for part in linux- cdx.json; do
        ls "$work"/first/freehold-*"$part"* >/dev/null || fail "there is no $part"
    done
    mkdir "$work/unpacked"
    tar -xzf "$work"/first/freehold-*-linux-*.tar.gz -C "$work/unpacked"
    # A program, and not a command of the shell's own, which would not be run under it.
    LD_PRELOAD=$work/unpacked/lib/libfreehold.so FREEHOLD=verbose=1 cat /dev/null >"$work/said" 2>&1 || true
    grep -q 'is active' "$work/said" || fail "the library does not run: $(cat "$work/said")"
    ! grep -rqF "$work" "$work/unpacked" || fail "a path of this machine is in $(grep -rlF "$work" "$work/unpacked" | tr '\n' ' ')"
fi

# What is already there is not mixed with a release, and a tag that is not there is said.
! "$root/scripts/release.sh" --short "$commit" "$work/first" 2>"$work/again.log" || fail "it wrote into a folder that is not empty"
grep -q 'is not empty' "$work/again.log" || fail "$(cat "$work/again.log")"
! "$root/scripts/release.sh" --short no-such-tag "$work/third" 2>"$work/third.log" || fail "it made a release of nothing"
grep -q 'there is no tag no-such-tag' "$work/third.log" || fail "$(cat "$work/third.log")"
sed -n 's/^release: left out: //p' "$work/first.log" | while read -r what; do skip_part "$what"; done
echo "two releases of $(git -C "$root" rev-parse --short "$commit") are equal: $(($(grep -c . "$work/first/SHA256SUMS"))) files"
rm -rf "$work"

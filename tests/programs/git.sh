#!/usr/bin/env bash
# git: a repository is made, grown, packed by several threads, checked and cloned; and must have the same commits as
# one that was made without Freehold.
. "$(dirname "$0")/common.sh"
need git git
active git --version
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=$work
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'

# Deterministic files that change from commit to commit, so that deltas are found.
grow() {
    local folder=$1 round file
    git init -q -b main "$folder"
    for round in 1 2 3 4 5 6; do
        for file in $(seq 1 60); do
            seq $((round * file)) $((round * file + 400 * file % 3000)) >"$folder/file$file"
        done
        git -C "$folder" add -A
        git -C "$folder" commit -q -m "round $round"
    done
    git -C "$folder" -c pack.threads=4 gc -q --aggressive
    git -C "$folder" fsck --full --strict
    git -C "$folder" log --stat --format=%H
}
grow "$work/without" >"$work/without.log" 2>&1
export -f grow
under bash -c "grow '$work/with'" >"$work/with.log" 2>&1 || { tail "$work/with.log"; die "git under Freehold"; }
cmp "$work/without.log" "$work/with.log" || die "the repositories differ"
under git clone -q "$work/with" "$work/clone"
under git -C "$work/clone" fsck --full
[ "$(git -C "$work/clone" rev-parse HEAD)" = "$(git -C "$work/without" rev-parse HEAD)" ] || die "another HEAD"
under git -C "$work/clone" grep -c 1 HEAD~3 -- file1 file2
say "$(git -C "$work/with" count-objects -v | tr '\n' ' ')"

#!/usr/bin/env bash
# What a process has mapped and locked, beside what the same program has over the system's malloc:
# address_space.sh KIND PROGRAM SAME-PROGRAM-WITHOUT-US
#   figures        how much is mapped at the beginning of a process
#   locked         mlockall of what there is, of what comes, and of both
#   unprivileged   the same where no more than 8 MiB may be locked
set -euo pipefail
kind=$1 ours=$2 theirs=$3

# The numbers of KiB that are mapped and locked, of a program that may be 12 MiB above the other: two chunks of 4 MiB, the
# library itself, and what the allocator has to know of its first 32 MiB.
compare() {
    local mapped locked their_mapped their_locked
    read -r mapped locked < <("$ours" "$@")
    read -r their_mapped their_locked < <("$theirs" "$@")
    echo "$*: $mapped KiB mapped, $locked locked; without us $their_mapped and $their_locked"
    [ "$mapped" -gt "$their_mapped" ] || { echo "the program does not use the library"; exit 1; }
    [ "$mapped" -le $((their_mapped + 12288)) ] || { echo "too much is mapped"; exit 1; }
    [ "$locked" -le $((their_locked + 12288)) ] || { echo "too much is locked"; exit 1; }
}

case $kind in
figures) compare figures 0 ;;
locked) for flags in 1 2 3; do compare figures $flags; done ;;
unprivileged) for flags in 1 2 3; do compare unprivileged $flags; done ;;
*) echo "unknown kind $kind" >&2; exit 2 ;;
esac

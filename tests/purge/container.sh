#!/usr/bin/env bash
# Programs in containers that are hardly larger than they are:  container.sh PROGRAM LIBFREEHOLD.SO
# Each runs in a control group with limits from 1.05 to 2 times what it has live at its peak, over the C library's allocator
# and over this one. What has just been freed must be gone before a large block is written to: of each program at least as
# many runs are survived as over the C library.
set -euo pipefail
program=$1 library=$(realpath "$2")
. "$(dirname "$0")/../support/skip.sh"
. "$(dirname "$0")/../support/memory_group.sh"
percents="105 110 120 140 170 200"
make_group

# survived PRELOAD NAME PEAK: sets `count` to how many limits were survived, and `picture` to a sign for each.
survived() {
    count=0 picture=
    for percent in $percents; do
        local status=0
        limit_group $(($3 / 100 * percent / 4096 * 4096))
        in_group env LD_PRELOAD="$1" "$program" "$2" 2>/dev/null || status=$?
        case $status in
        0) count=$((count + 1)) picture="$picture +" ;;
        137) picture="$picture -" ;;
        *) echo "CHECK FAILED: $2 ended with status $status, under ${1:-the C library}" >&2; exit 1 ;;
        esac
    done
}

failed=
printf '%-8s %-9s %-22s %s\n' program peak "C library" "of limits of $percents % survived"
for name in block vectors phases images rehash text; do
    peak=$("$program" $name peak)
    survived "" $name "$peak"
    theirs=$count their_picture=$picture
    survived "$library" $name "$peak"
    printf '%-8s %3d MiB  %d %-20s %d%s\n' $name $((peak >> 20)) $theirs "$their_picture" $count "$picture"
    [ $count -ge $theirs ] || failed="$failed $name"
    # The limit is one: with less than is live nobody lives, and with twice as much the C library does.
    [ $theirs -ge 1 ] || { echo "CHECK FAILED: $name lives at no limit over the C library" >&2; exit 1; }
done 2> >(grep -v Killed >&2)
[ -z "$failed" ] || { echo "CHECK FAILED: killed where the C library lives:$failed" >&2; exit 1; }

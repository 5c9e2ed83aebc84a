#!/bin/sh
# Instructions of two of the programs over a drift, counted by valgrind: instructions.sh LIBSLOW_CLOCK.SO LIBRARY... The clock
# (tests/observe/slow_clock.c) is slowed down, so that what the library does by time it does as often as without valgrind.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
clock=$(realpath "$1")
shift
folder=$(mktemp -d "${TMPDIR:-/tmp}/freehold-phases.XXXXXX")
trap 'rm -rf "$folder"' EXIT
python=$(python3 -c 'import sys; print(sys.executable)')
export PHASES_MIB="${PHASES_MIB:-40}" PYTHONHASHSEED=0 PYTHONMALLOC=malloc
yes '' | head -n 100 > "$folder/lines"

count() {
    name=$1 library=$2
    shift 2
    LD_PRELOAD="$clock $library" valgrind -q --tool=cachegrind --cache-sim=no --cachegrind-out-file="$folder/counts" "$@" \
        < "$folder/lines" > /dev/null
    echo "$name $library $(awk '/^summary:/ { print $2 }' "$folder/counts")"
}

for library; do
    library=$(realpath "$library")
    count perl-strings "$library" perl "$here/service.pl" 50 100 200 400 800 1600
    count python-malloc-bytes "$library" "$python" "$here/service.py" bytes 40 90 200 500 1000 2000
done

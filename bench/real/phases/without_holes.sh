#!/usr/bin/env bash
# Builds the library as it is and without hole reuse, for phases.py: without_holes.sh DIRECTORY. It makes
# DIRECTORY/with.so and DIRECTORY/without.so; in the latter no slab is ever opened to other sizes.
set -euo pipefail

top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
opening='bool fh_holes_open(size_t slot, unsigned c) {'
for name in with without; do
    copy=$directory/$name
    rm -rf "$copy"
    mkdir "$copy"
    git -C "$top" archive HEAD | tar -x -C "$copy"
    grep -qF "$opening" "$copy/src/store/holes.c" || { echo "src/store/holes.c no longer has: $opening" >&2; exit 1; }
    [ "$name" = with ] || sed -i "s/^$opening/&\n    if (fh_load(\&any) == 0) return false;/" "$copy/src/store/holes.c"
    cmake -S "$copy" -B "$copy/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFREEHOLD_TESTS=OFF >/dev/null
    cmake --build "$copy/build" --target freehold >/dev/null
    ln -sf "$name/build/libfreehold.so" "$directory/$name.so"
    echo "$directory/$name.so"
done

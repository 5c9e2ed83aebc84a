#!/usr/bin/env bash
# The fourth walk of docs/HACKING.md: a port begins with the embedding library, and files beside linux*.c: port.sh ROOT WORK
# Linux's own files stand in for those of a system that CMake knows and Freehold does not. What a first port need not have is
# left out: what takes over names, and what only a library that is loaded or that is every program's needs.
set -euo pipefail
root=$1 work=$2
fail() { echo "CHECK FAILED: $*"; exit 1; }
rm -rf "$work"
mkdir -p "$work/root"
cp -r "$root"/{CMakeLists.txt,cmake,include,src,recorder} "$work/root"
cd "$work/root"
for file in src/system/linux*.c; do
    case $file in
    *_loaded* | *_override* | *_global*) rm "$file" ;;
    *) mv "$file" "${file/linux/freebsd}" ;;
    esac
done
sed -i 's/\(foreach(other IN ITEMS linux windows darwin\))/\1 freebsd)/' cmake/FreeholdLibraries.cmake
grep -q 'darwin freebsd' cmake/FreeholdLibraries.cmake || fail "cmake/FreeholdLibraries.cmake has another list of systems"
cmake -S . -B build -G Ninja -DCMAKE_SYSTEM_NAME=FreeBSD -DCMAKE_C_COMPILER="${CC:-cc}" -DFREEHOLD_CXX=OFF \
    -DCMAKE_BUILD_TYPE=Debug --log-level=WARNING || fail "it cannot be configured"
cmake --build build --target embed_static >build.log || { cat build.log; fail "it cannot be built"; }
cat >program.c <<'C'
#include <freehold/freehold.h>
#include <string.h>
int main(void) {
    char *p = fh_malloc(100000);
    if (!p) return 1;
    memset(p, 1, 100000);
    fh_free(p);
    return fh_verify() != 0;
}
C
"${CC:-cc}" -Iinclude program.c build/libfreehold-embed.a -lpthread -o program || fail "nothing can be linked with it"
./program || fail "a program with it does not run"
echo "the embedding library of a port with $(ls src/system/freebsd*.c | wc -l) files allocates"
rm -r "$work"

#!/usr/bin/env bash
# The library as one file, made by scripts/amalgamate.py: amalgamation.sh ROOT WORK
#   - gcc and clang take it with -O2 and nothing else, and find nothing to warn of
#   - it shows the same names as the libraries, and needs nothing that they may not need
#   - a program works with it, with the fh_ functions only and with malloc taken over; so do tests of the library's own
#   - what is written does not depend on where it is written to
set -euo pipefail
root=$1 work=$2
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }

rm -rf "$work"
mkdir -p "$work"
cd "$work"
"$root/scripts/amalgamate.py" one
(cd / && "$root/scripts/amalgamate.py" "$OLDPWD/again")
diff -r one again || fail "written twice, and not the same"
find one -mindepth 1 -printf '%f\n' | sort | diff - <(printf 'freehold.c\nfreehold.h\n') || fail "more than two files, or fewer"
! grep -E '^# *include "' one/freehold.c | grep -v '"freehold.h"' || fail "it includes files that are not there"
version=$(sed -n 's/#define FH_VERSION "\(.*\)"/\1/p' one/freehold.h)
touch occupied
! "$root/scripts/amalgamate.py" occupied >said 2>&1 || fail "it wrote into a file"
[ "$(cat said)" = "amalgamate: cannot write to occupied: File exists" ] || fail "not a line: $(cat said)"

# Names that the library may need. pthread_atfork is in an archive and known there by what it calls; clang makes
# bcmp of memcmp.
allowed=$(sed 's/#.*//' "$root/tests/structure/allowed.txt" | awk 'NF { print $1 }')
allowed=$(printf '%s\n' "$allowed" pthread_atfork fstatat bcmp _GLOBAL_OFFSET_TABLE_ | LC_ALL=C sort -u)

# Names that the object shows, and names that it needs; a weak one is looked for and may be missing.
shown() { readelf -sW "$1" | awk '$5 != "LOCAL" && $6 == "DEFAULT" && $7 != "UND" && $1 ~ /:$/ { print $8 }' | LC_ALL=C sort -u; }
needed() { nm -u "$1" | awk '$1 == "U" { print $2 }' | LC_ALL=C sort -u; }
declared() { grep -ohE '\bfh_\w+\(' "$root"/include/freehold/{freehold,defer,defrag,heap,pool}.h | tr -d '(' | LC_ALL=C sort -u; }

check_names() {
    local object=$1 kind=$2 odd
    case $kind in
    embed) odd=$(shown "$object" | grep -v '^fh_') || true ;;
    dropin) odd=$(comm -13 <(shown "$object") <(printf '%s\n' calloc free malloc malloc_usable_size posix_memalign realloc)) ;;
    esac
    [ -z "$odd" ] || fail "$object ($kind): $odd"
    odd=$(shown "$object" | grep '^fh_' | comm -13 <(declared) -)
    [ -z "$odd" ] || fail "$object shows what freehold.h does not have: $odd"
    odd=$(needed "$object" | comm -23 - <(printf '%s\n' "$allowed"))
    [ -z "$odd" ] || fail "$object needs $odd"
}

# build COMPILER KIND FLAGS...
build() {
    local compiler=$1 kind=$2 define=()
    shift 2
    [ "$kind" = embed ] || define=(-DFREEHOLD_OVERRIDE)
    "$compiler" -O2 -Werror "$@" "${define[@]}" -c one/freehold.c -o "$compiler-$kind.o"
    check_names "$compiler-$kind.o" "$kind"
    "$compiler" -O2 -DONE_FILE -Ione "$root/tests/install/program.c" "$compiler-$kind.o" -pthread -o "$compiler-$kind"
    "./$compiler-$kind" "$version" "$kind" || fail "$compiler, $kind: the program ends with $?"
}

build gcc embed
build gcc dropin -fPIC
if command -v clang >/dev/null; then
    # With the warnings that many a project has on.
    build clang dropin -Wall -Wextra
else
    skip_part "no clang"
fi

# Tests of the library's own, over the file.
mkdir -p include/freehold
cp one/freehold.h include/freehold/
for test in conformance/sizes conformance/contents conformance/errors; do
    gcc -D_GNU_SOURCE -DT_EMBED -O1 -fno-builtin -Iinclude "$root/tests/$test.c" gcc-embed.o -pthread -o "$(basename $test)"
    FREEHOLD=on_oom=silent "./$(basename $test)" >"$(basename $test).out" 2>&1 || fail "$test: $(tail -3 "$(basename $test).out")"
done
gcc -D_GNU_SOURCE -O1 -fno-builtin -Wno-deprecated-declarations "$root/tests/conformance/interposed.c" gcc-dropin.o -pthread -o interposed
./interposed >interposed.out || fail "interposed: $(tail -3 interposed.out)"
echo "two files, $(wc -l <one/freehold.c) lines: compiled, linked and used"

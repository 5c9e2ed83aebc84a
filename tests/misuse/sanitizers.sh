#!/usr/bin/env bash
# Beside the sanitizers: sanitizers.sh LIBFREEHOLD.SO WORK-FOLDER
#
# A program with AddressSanitizer allocates by that. Under the preload it works as without, finds what it would find, and one line
# says that Freehold stands aside. Where Freehold comes first all the same, the line says that too.
set -euo pipefail
library=$(realpath "$1") work=$2
. "$(dirname "$0")/../support/skip.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cat >program.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **arguments) {
    (void)arguments;
    char *volatile p = malloc(100);
    memset(p, 1, 100);
    if (count > 1) p[100] = 1;
    free(p);
    puts("fine");
    return 0;
}
END
die() { printf 'CHECK FAILED: %s\n' "$*" >&2; cat out >&2; exit 1; }
tried=0
under() { LD_PRELOAD=$library "$@" >out 2>&1; }
# clang links the sanitizer into the program, so its malloc comes first.
if command -v clang >/dev/null && clang -g -fsanitize=address program.c -o with-clang 2>clang.log; then
    under ./with-clang || die "a program with AddressSanitizer does not run"
    grep -q '^freehold: AddressSanitizer .*stands aside$' out || die "nobody says that Freehold stands aside"
    grep -q '^fine$' out || die "the program has not done its work"
    ! under ./with-clang 1 || die "the overflow is not found any more"
    grep -q 'heap-buffer-overflow' out || die "the overflow is not found any more"
    tried=1
else
    skip_part "clang has no AddressSanitizer here"
fi
# gcc's is a library, which refuses to come second unless it is told not to look.
if gcc -g -fsanitize=address program.c -o with-gcc 2>gcc.log; then
    ASAN_OPTIONS=verify_asan_link_order=0 under ./with-gcc || die "a program with gcc's AddressSanitizer does not run"
    grep -q '^freehold: AddressSanitizer .*does not see' out || die "nobody says that the sanitizer sees nothing"
    grep -q '^fine$' out || die "the program has not done its work"
    tried=1
else
    skip_part "gcc has no AddressSanitizer here"
fi
gcc -g program.c -o without
under ./without || die "a plain program does not run"
! grep -q '^freehold' out || die "a plain program is told of a sanitizer"
[ $tried = 1 ] || skip "no compiler with AddressSanitizer"
echo ok

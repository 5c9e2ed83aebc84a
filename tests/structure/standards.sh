#!/usr/bin/env bash
# Each public header by itself, in each language standard that it says it is for, without a warning, of those too that a careful
# project asks for: standards.sh SOURCE-ROOT COMPILER…
#   a C compiler has the C standards, one whose name ends in ++ those of C++
set -euo pipefail
root=$1
shift
fail() { echo "CHECK FAILED: $*"; exit 1; }
program='struct node { long a, b, c; };
int main(void) {
#ifdef FREEHOLD_POOL_H
    fh_pool *p = fh_pool_new_of(struct node);
    fh_pool_free(p, fh_pool_alloc(p));
    fh_pool_destroy(p);
#endif
#ifdef FREEHOLD_FAST_H
    fh_fast_free(fh_fast_malloc(48));
#endif
    return 0;
}'

try() { # COMPILER LANGUAGE STANDARD HEADER
    local more="-Wstrict-prototypes -Wmissing-prototypes"
    [ "$2" = c++ ] && more="-Wold-style-cast -Wzero-as-null-pointer-constant"
    said=$(printf '#include <freehold/%s>\n%s\n' "$4" "$program" |
        "$1" -x "$2" "-std=$3" -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef $more -Werror -O1 -fsyntax-only -I"$root/include" - 2>&1) ||
        fail "$4 in $3: $said"
}

knows() { # COMPILER LANGUAGE STANDARD
    "$1" -x "$2" "-std=$3" -fsyntax-only - </dev/null 2>/dev/null
}

tried=0
for compiler in "$@"; do
    language=c standards="c99 c11 c17"
    [[ $compiler == *++* ]] && language=c++ standards="c++98 c++11 c++14 c++17 c++20 c++2b"
    for standard in $standards; do
        knows "$compiler" $language "$standard" || continue
        headers="freehold.h heap.h pool.h defer.h defrag.h"
        [[ $standard =~ c99|c\+\+98|c\+\+11 ]] || headers+=" fast.h"
        [[ $standard =~ c\+\+(17|20|2b) ]] && headers+=" freehold.hpp"
        for header in $headers; do
            try "$compiler" $language "$standard" "$header"
            tried=$((tried + 1))
        done
    done
done
[ $tried -ge 18 ] || fail "only $tried headers and standards were tried"
echo "$tried headers and standards"

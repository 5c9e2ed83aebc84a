#!/usr/bin/env bash
# The drop-in has operator new and delete, and yet a plain C program that preloads it must not get the C++ library:
# needs_no_cxx.sh C-PROGRAM LIBFREEHOLD.SO
set -euo pipefail
program=$1 library=$2
needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needed: $needed"
if grep -q -E 'stdc|c\+\+' <<<"$needed"; then
    echo "the library needs the C++ library"
    exit 1
fi
# All symbols are resolved at the start (BIND_NOW), so that a missing one is seen now and not at the first failure.
LD_BIND_NOW=1 LD_PRELOAD=$library FREEHOLD=verbose=1 "$program" 2>&1 >/dev/null | grep 'version .* is active'
loaded=$(LD_PRELOAD=$library LD_TRACE_LOADED_OBJECTS=1 "$program")
grep -q libfreehold <<<"$loaded" || { echo "not loaded"; exit 1; }
! grep -q -E 'libstdc|libc\+\+' <<<"$loaded" || { echo "a C program got the C++ library:"; echo "$loaded"; exit 1; }

#!/usr/bin/env bash
# Builds one of the chain programs with given flags and runs it: variant.sh COMPILER SOURCE LIBFREEHOLD-EMBED.A WORK-FOLDER FLAG...
set -euo pipefail
compiler=$1 source=$2 archive=$3 work=$4
shift 4
. "$(dirname "$0")/../support/skip.sh"
command -v "$compiler" >/dev/null || skip "no $compiler"
mkdir -p "$work"
flags=(-g -D_GNU_SOURCE -pthread)
case "$source" in *.c) flags+=(-std=c11) ;; *) flags+=(-std=c++17) ;; esac
for flag in "$@"; do [ -z "$flag" ] || flags+=("$flag"); done
"$compiler" "${flags[@]}" "$source" "$archive" -o "$work/program" || case " $* " in
    *" -static"*) skip "$compiler cannot link statically here" ;;
    *) exit 1 ;;
esac
exec "$work/program"

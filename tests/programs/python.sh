#!/usr/bin/env bash
# Python, with its own test suite: the modules that allocate much, use threads, fork, or load C libraries.
. "$(dirname "$0")/common.sh"
# The interpreter that brings its own tests; Debian's come in a package of their own.
for python in /usr/bin/python3 python3; do
    "$python" -c 'import test.test_json' 2>/dev/null && break
    python=
done
[ -n "$python" ] || skip "no python3 with its test suite (package libpython3-testsuite)"
python=$("$python" -c 'import sys; print(sys.executable)')

# PYTHONMALLOC=malloc sends every object to malloc, not only those above 512 bytes.
export PYTHONMALLOC=malloc
active "$python" -c 'pass'
under "$python" -c 'import sys; sys.exit("libfreehold" not in open("/proc/self/maps").read())' || die "not mapped"

tests=(test_json test_re test_list test_dict test_threading test_gc test_thread test_fork1)
# Observed it runs again, with these. Seldom does one of the others ask something of an allocator that these do not.
if [[ ${FREEHOLD:-} != *observe* || $long = long ]]; then
    tests+=(test_unicode test_bytes test_queue test_weakref test_array test_zlib test_pickle test_struct test_memoryview test_mmap)
fi
if [ "$long" = long ]; then
    tests+=(test_multiprocessing_fork test_multiprocessing_spawn test_concurrent_futures test_asyncio test_subprocess
            test_socket test_ssl test_sqlite3 test_ctypes test_decimal test_io test_os test_posix)
fi
# What fails without Freehold says nothing about Freehold (a machine without network, say): it is left out.
cd "$work"
under "$python" -m test -j2 --timeout 300 "${tests[@]}" >python.log 2>&1 && { tail -n 3 python.log; exit 0; }
failed=$(sed -n '/tests\? failed:/,/^$/p' python.log | grep -o 'test_[a-z0-9_]*' | sort -u)
[ -n "$failed" ] || { tail -n 30 python.log; die "python -m test ended without naming what failed"; }
for name in $failed; do
    if "$python" -m test --timeout 300 "$name" >"$name.without" 2>&1; then
        under "$python" -m test --timeout 300 "$name" >"$name.with" 2>&1 ||
            { tail -n 40 "$name.with"; die "$name passes without Freehold and fails with it"; }
    else
        skip_part "Python's own $name fails on this machine without Freehold, too"
    fi
done
tail -n 3 python.log

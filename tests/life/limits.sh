#!/usr/bin/env bash
# Life under limits: limits.sh KIND OUT_OF_MEMORY-PROGRAM LIBFREEHOLD.SO
#   address-space     `ulimit -v` of 1 GiB: until NULL, and back again
#   address-space-small   64 MiB, less than many allocators reserve at once; address-space-32, address-space-16: still less
#   address-space-hardened   128 MiB, with harden=1, which takes whole regions of addresses: three tenths must be had
#   data              `ulimit -d` of 256 MiB: what is counted is writable private memory, as strict overcommit does
#   python            python3 under `ulimit -v` of 1 GiB
#   python-later      python3 that limits itself to 1 GiB, by the usual recipe, and then starts threads and imports modules
#   overcommit        policy 2 (strict) for the whole machine.  Every process on it feels that, so it is only done
#                     when FREEHOLD_TEST_OVERCOMMIT=1 allows it, and undone on every way out.
set -euo pipefail
kind=$1 program=$2 library=$3
. "$(dirname "$0")/../support/skip.sh"

# The least that must be had is six tenths of the limit: the rest is the program itself, the allocator's own
# records and, in the worst case, an address space cut into pieces.
case $kind in
address-space) (ulimit -v 1048576 && exec "$program" 620 4000) ;;
address-space-small) (ulimit -v 65536 && exec "$program" 40 4000) ;;
address-space-32) (ulimit -v 32768 && exec "$program" 20 4000) ;;
address-space-hardened) (ulimit -v 131072 && FREEHOLD=harden=1 exec "$program" 40 4000) ;;
address-space-16) (ulimit -v 16384 && exec "$program" 8 4000) ;;
data) (ulimit -d 262144 && exec "$program" 150 4000) ;;
python)
    python=$(command -v python3) || skip "no python3"
    # A megabyte of small objects, a large buffer that grows, and a refusal that can be caught.
    (ulimit -v 1048576 && LD_PRELOAD=$library exec "$python" -c '
assert "libfreehold" in open("/proc/self/maps").read()
import json, re
data = json.dumps([{"key": i, "text": "x" * (i % 100)} for i in range(50000)])
assert len(json.loads(data)) == 50000
try:
    block = bytearray(2 << 30)
    raise SystemExit("2 GiB under a limit of 1 GiB")
except MemoryError:
    pass
block = bytearray(300 << 20)
block[::4096] = b"x" * len(block[::4096])
print("python3 lives under 1 GiB of address space")
')
    ;;
python-later)
    python=$(command -v python3) || skip "no python3"
    LD_PRELOAD=$library FREEHOLD=on_oom=silent exec "$python" -c '
assert "libfreehold" in open("/proc/self/maps").read()
import resource, threading
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))

def work():
    results.append(sum(len("x" * i) for i in range(1000)))

def start_threads():
    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

def fill(size):
    blocks = []
    try:
        while True: blocks.append(bytearray(size))
    except MemoryError:
        return len(blocks) * size >> 20

results = []
start_threads()
import decimal, json, sqlite3
try:
    bytearray(2 << 30)
    raise SystemExit("2 GiB under a limit of 1 GiB")
except MemoryError:
    pass
got = fill(4 << 20)
assert got > 700, got
start_threads()
with open("/proc/self/status") as status: assert "VmSize" in status.read()
assert len(results) == 40
print(got, "MiB in blocks of 4 MiB under 1 GiB, and threads before and after")
'
    ;;
overcommit)
    [ "${FREEHOLD_TEST_OVERCOMMIT:-}" = 1 ] ||
        skip "strict overcommit is a setting of the whole machine; FREEHOLD_TEST_OVERCOMMIT=1 allows it"
    knob=/proc/sys/vm/overcommit_memory share=/proc/sys/vm/overcommit_ratio
    [ -w "$knob" ] || skip "$knob cannot be written here"
    old=$(cat "$knob") old_share=$(cat "$share")
    trap 'echo "$old" >"$knob"; echo "$old_share" >"$share"' EXIT
    # All of memory may be promised, so that what else runs here is not refused.
    echo 100 >"$share"
    echo 2 >"$knob"
    "$program" 512 512
    LD_PRELOAD=$library python3 -c 'print(len(list(range(10**6))), "objects under strict overcommit")'
    ;;
*) echo "unknown kind $kind" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# The library for a whole system, with a list: global.sh ROOT LIBFREEHOLD-GLOBAL.SO WORK
#
# In a root of its own, which has this machine's programs and another /etc, as a file of the machine's must not change.
#   - `freehold-global enable` is enough: programs have it that are not denied, and no other
#   - with one program allowed, only that one has it; a pattern with a slash means the path
#   - a program that is denied has the C library's malloc, and works: C, C++, threads, every call of the family
#   - `disable` and `forget` leave what was there before
set -euo pipefail
root=$1 library=$(realpath "$2") work=$3
. "$root/tests/support/skip.sh"
fail() { echo "CHECK FAILED: $*"; exit 1; }

if [ "${4:-}" != inside ]; then
    rm -rf "$work"
    mkdir -p "$work"
    work=$(realpath "$work")
    unshare --map-root-user --mount --pid --fork true 2>/dev/null || skip "no namespaces of mounts for this user"
    # The names of every call of the family, as a program that the C library's malloc passes.
    cc -O1 -fno-builtin -D_GNU_SOURCE -Wno-deprecated-declarations "$root/tests/conformance/calls.c" -pthread -o "$work/calls" \
        2>"$work/cc.log" || fail "$(cat "$work/cc.log")"
    cat >"$work/new.cc" <<'END'
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <vector>
struct alignas(128) wide { char bytes[300]; };
int main() {
    std::vector<std::string> all;
    std::thread other([&] { for (int i = 0; i < 10000; i++) all.push_back(std::string(i % 300, 'x')); });
    other.join();
    auto w = new wide[3];
    bool aligned = reinterpret_cast<std::uintptr_t>(w) % 128 == 0;
    delete[] w;
    try {
        volatile std::size_t much = SIZE_MAX / 4;
        char *volatile p = new char[much];
        delete[] p;
    } catch (const std::bad_alloc &) {
        return aligned && all[299].size() == 299 ? 0 : 1;
    }
    return 2;
}
END
    g++ -std=c++17 -O1 "$work/new.cc" -pthread -o "$work/operators" 2>"$work/cc.log" || fail "$(cat "$work/cc.log")"
    cp /bin/true "$work/quiet"
    exec unshare --map-root-user --mount --pid --fork "$0" "$root" "$library" "$work" inside
fi

bare=$work/root
mkdir -p "$bare"/{usr,etc,proc,tmp,dev,test}
mount --rbind /usr "$bare/usr"
mount -t proc proc "$bare/proc"
touch "$bare/dev/null"
mount --bind /dev/null "$bare/dev/null"
for link in bin lib lib64 sbin; do
    if [ -L /$link ]; then ln -s "$(readlink /$link)" "$bare/$link"; else mkdir -p "$bare/$link" && mount --rbind /$link "$bare/$link"; fi
done
mkdir -p "$bare/opt/lib"
cp "$library" "$bare/opt/lib/libfreehold-global.so"
cp "$work/calls" "$work/operators" "$work/quiet" "$bare/test/"
cp "$root/packaging/global/freehold-global" "$bare/test/"
: >"$bare/etc/ld.so.cache"

inside() { chroot "$bare" /usr/bin/env -i PATH=/usr/bin:/bin "$@"; }
# A program that has it says so on stderr.
has() {
    local said
    said=$(inside FREEHOLD=verbose=1 "$@" 2>&1 >/dev/null) || fail "$* does not run: $said"
    grep -q '^freehold: version .* is active' <<<"$said"
}
global() { sh "$root/packaging/global/freehold-global" --root "$bare" "$@"; }

# The package puts the library below /usr, which here is the machine's: the line of /etc/ld.so.preload is written by hand.
printf '/opt/lib/libfreehold-global.so\n' >"$bare/etc/ld.so.preload"
has /test/quiet || fail "a program does not have it, with no list"
has /usr/bin/cat /test/quiet || fail "a program of the machine does not have it"
inside FREEHOLD=on_oom=silent /test/operators >"$work/out" 2>&1 || fail "C++: $(tail -3 "$work/out")"

global deny quiet
! has /test/quiet || fail "a denied program has it"
has /usr/bin/cat /test/quiet || fail "another one has lost it"
[ -z "$(inside FREEHOLD=verbose=1,stats=1 /test/quiet 2>&1)" ] || fail "a denied program says something"
global forget quiet
has /test/quiet || fail "a forgotten program is still denied"
[ ! -s "$bare/etc/freehold/global.conf" ] || fail "the list is not what it was"

global allow '/usr/*/cat'
has /usr/bin/cat /test/quiet || fail "the allowed program does not have it"
! has /test/quiet || fail "a program that is not allowed has it"
global deny cat
! has /usr/bin/cat /test/quiet || fail "an allowed program that is denied has it"
global status | grep -qx 'deny cat' || fail "status does not say what is denied"

global forget '/usr/*/cat'
global deny 'op*s'
global deny calls
for program in calls operators; do
    ! has /test/$program || fail "$program is denied and has it"
    inside /test/$program >"$work/out" 2>&1 || fail "$program with the C library's malloc: $(tail -3 "$work/out")"
done

# The file is as it was before, with what else it had.
printf '/opt/lib/other.so' >"$bare/etc/before"
{ cat "$bare/etc/before"; printf '\n/opt/lib/libfreehold-global.so\n'; } >"$bare/etc/ld.so.preload"
global disable
[ "$(cat "$bare/etc/ld.so.preload")" = "$(cat "$bare/etc/before")" ] || fail "left: $(cat "$bare/etc/ld.so.preload")"
! global status >"$work/out" || fail "status says that it is on"
printf '/opt/lib/libfreehold-global.so\n' >"$bare/etc/ld.so.preload"
global disable
[ ! -e "$bare/etc/ld.so.preload" ] || fail "an empty file is left"
echo "on, off, and for those on the list"

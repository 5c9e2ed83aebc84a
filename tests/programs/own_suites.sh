#!/usr/bin/env bash
# The own tests of redis and git, from Debian's source packages: of redis over the server as packaged, of git over one that is
# built here. Everything that they start runs under Freehold. They must pass; what fails without Freehold as well is a skip.
. "$(dirname "$0")/common.sh"
need apt-get apt
need tclsh tcl
need redis-server redis-server
need redis-benchmark redis-tools
need cc gcc
need dpkg-source dpkg-dev
[ -e /usr/include/zlib.h ] || skip "no zlib.h (package zlib1g-dev)"
redis="unit/type/list unit/type/hash unit/type/set unit/type/zset unit/scripting unit/dump unit/expire unit/multi unit/sort"
git="t0001 t3200 t4013 t5300 t5302 t5310 t6120 t7004"
[ "$long" != long ] || git="t0 t1 t3 t4 t5 t6 t7"

fetch_sources redis git || skip "the source packages cannot be fetched"

cd "$work"/source/redis-*/
for program in server cli benchmark check-aof check-rdb; do
    path=$(command -v "redis-$program") || skip "no redis-$program (package redis-tools)"
    ln -sf "$path" "src/redis-$program"
done
chosen=()
for unit in $redis; do chosen+=(--single "$unit"); done
active redis-server --version
if under timeout 1800 ./runtest --clients 2 "${chosen[@]}" >"$work/redis.log" 2>&1; then
    grep -q 'All tests passed' "$work/redis.log" || die "redis: no word that all has passed"
    say "redis: $(grep -c '\[.*ok.*\]' "$work/redis.log") of its tests passed"
elif timeout 1800 ./runtest --clients 2 "${chosen[@]}" >"$work/redis.without" 2>&1; then
    tail -n 40 "$work/redis.log"
    die "redis: its tests fail"
else
    skip_part "redis: its tests fail without Freehold too"
fi

cd "$work"/source/git-*/
make -j2 NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 NO_OPENSSL=1 NO_PERL=1 NO_PYTHON=1 CFLAGS=-O1 >"$work/git.log" 2>&1 ||
    { tail -n 3 "$work/git.log"; skip_part "git: it cannot be built here"; exit 0; }
active ./git --version
cd t
for part in $git; do
    for script in "$part"*.sh; do
        if ! under timeout 1800 bash "./$script" >"$work/git.$part" 2>&1; then
            ! timeout 1800 bash "./$script" >"$work/git.without" 2>&1 || { grep '^not ok' "$work/git.$part" | head; die "git: $script fails"; }
            skip_part "git: $script fails without Freehold too"
        fi
    done
    say "git: $part: $(tail -n 2 "$work/git.$part" | head -n 1)"
done

#!/usr/bin/env bash
# MariaDB: a server with 16 connections at once, whose tables, sorts and joins do not fit its buffers. What it answers must be
# what it answers without Freehold, and its tables must be whole afterwards.
. "$(dirname "$0")/common.sh"
need mariadb-install-db mariadb-server
need mariadb mariadb-client
server_program=$(command -v mariadbd || echo /usr/sbin/mariadbd)
[ -x "$server_program" ] || skip "no mariadbd (package mariadb-server)"
. "$(dirname "$0")/servers.sh"
socket=$(mktemp -u /tmp/freehold-mariadb-XXXXXX) # a socket's path may have a hundred bytes
trap 'end_server KILL; rm -f "$socket"' EXIT
rows=20000 rounds=3
[ "$long" != long ] || rows=200000 rounds=30
cat >"$work/make.sql" <<SQL
create table t (a int primary key, b varchar(60), c json, d double, key (b)) engine = innodb;
insert into t select seq, md5(seq), json_object('n', seq, 's', repeat('x', seq % 200)), seq / 7 from seq_1_to_$rows;
create table m (a int, b text) engine = aria;
insert into m select seq, repeat(md5(seq), seq % 40) from seq_1_to_$rows;
SQL
cat >"$work/ask.sql" <<'SQL'
select count(*), sum(a), max(b) from t;
select b, count(*) from (select left(b, 2) b from t) x group by b order by 2 desc, 1 limit 20;
select t.a, length(m.b), json_value(c, '$.n') from t join m using (a) order by m.b desc, t.a limit 50;
select md5(group_concat(b order by d desc)) from t where a < 3000;
with recursive r(i, s) as (select 1, cast('x' as char(4000)) union all select i + 1, left(concat(s, md5(i)), 4000) from r where i < 900)
    select sum(length(s)), md5(max(s)) from r;
select a, row_number() over (partition by a % 17 order by b) n from t order by n desc, a limit 40;
select sum(crc32(b)) from m where b regexp '^[0-9]+a.*[ef]{2}';
SQL
ask() { mariadb --no-defaults -S "$socket" -u root -N -B test "$@"; }
is_up() { ask -e 'select 1'; }
clients() {
    local number numbers=()
    for number in $(seq 16); do
        for _ in $(seq "$rounds"); do timeout 600 mariadb --no-defaults -S "$socket" -u root -N -B test <"$work/ask.sql" || echo failed; done \
            >"$work/client.$number" 2>&1 &
        numbers+=($!)
    done
    wait "${numbers[@]}"
    cat "$work"/client.*
}
served() {
    mkdir "$work/data.$1"
    mariadb-install-db --no-defaults --user="$(id -un)" --auth-root-authentication-method=normal --datadir="$work/data.$1" \
        >"$work/install.$1" 2>&1 || { tail -n 5 "$work/install.$1"; skip "mariadb-install-db fails here"; }
    start "$2" "$work/server.$1" "$server_program" --no-defaults --user="$(id -un)" --datadir="$work/data.$1" --socket="$socket" \
        --skip-networking --pid-file="$work/pid" --innodb-buffer-pool-size=8M --sort-buffer-size=64K --thread-cache-size=0 \
        --plugin-maturity=unknown
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    timeout 600 mariadb --no-defaults -S "$socket" -u root test <"$work/make.sql" || die "the tables could not be made"
    clients >"$work/mariadb.$1"
    ask -e 'check table t, m extended' >>"$work/mariadb.$1"
    ask -e 'shutdown'
    wait "$server" || die "the server ended with $?"
    server=
}
served without ""
served with "$library"
grep -q failed "$work/mariadb.with" && die "a client failed"
same_answers mariadb

#!/usr/bin/env bash
# PostgreSQL under pgbench with 32 clients. A database is made, filled and used by many processes at once; what it then says of
# itself, and of queries that sort and join, is compared with the answers without Freehold.
. "$(dirname "$0")/common.sh"
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$programs/pgbench" ] || skip "no pgbench (package postgresql)"
. "$(dirname "$0")/servers.sh"

# It refuses to run as root.
user=$(id -un)
as_user() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    need setpriv util-linux
    id postgres >/dev/null 2>&1 || skip "root, and there is no user postgres"
    user=postgres
    as_user() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
fi
place=$(mktemp -d /tmp/freehold-postgresql-XXXXXX) # where that user can come, and short, for the socket
trap 'end_server KILL; rm -rf "$place"' EXIT
chown "$user" "$place"
cp "$library" "$place/libfreehold.so"
chmod 755 "$place/libfreehold.so"
cd "$place"
export PGHOST=$place PGUSER=$user PGDATABASE=postgres

transactions=60
[ "$long" != long ] || transactions=3000
cat >"$work/questions.sql" <<'SQL'
select count(*), sum(aid), sum(length(filler)) from pgbench_accounts;
select sum(abalance) = (select sum(tbalance) from pgbench_tellers) from pgbench_accounts;
select sum(delta) = (select sum(bbalance) from pgbench_branches), count(*) from pgbench_history;
create table words as select i, md5(i::text) as w, repeat(md5(i::text), i % 40) as v from generate_series(1, 60000) i;
select md5(string_agg(v, ',' order by w)) from words;
create index on words (w);
select a.i, b.i from words a join words b on substr(a.w, 1, 7) = substr(b.w, 1, 7) and a.i < b.i order by 1, 2 limit 40;
select jsonb_agg(to_jsonb(t)) from (select i, w from words order by w limit 30) t;
select percentile_cont(0.5) within group (order by length(v)), count(distinct substr(w, 1, 3)) from words;
do $$ begin for n in 1..300 loop perform set_config('a.b' || n, repeat('x', n * 10), false); end loop; end $$;
select length(string_agg(x::text, '')) from (select regexp_matches(v, '[0-9]+', 'g') x from words where i < 3000) s;
vacuum full words;
select count(*), sum(length(v)) from words;
SQL

served() {
    local preload=${2:+$place/libfreehold.so} data=$place/data.$1 log=$place/server.$1
    LD_PRELOAD=$preload as_user "$programs/initdb" -D "$data" -A trust -U "$user" --locale=C -E UTF8 -N >"$log" 2>&1 ||
        { tail -n 20 "$log"; die "initdb $1"; }
    start "" "$log" as_server "$preload" -D "$data" -c listen_addresses= -c "unix_socket_directories=$place" \
        -c max_connections=50 -c fsync=off -c work_mem=1MB
    until_ready "$log" "$programs/pg_isready" -q
    [ -z "$2" ] || in_server
    "$programs/pgbench" -i -q -s 1 >"$work/bench.$1" 2>&1 || { tail "$work/bench.$1"; die "pgbench -i $1"; }
    timeout 900 "$programs/pgbench" -c 32 -j 4 -t $transactions >>"$work/bench.$1" 2>&1 ||
        { tail -n 20 "$work/bench.$1"; die "pgbench $1"; }
    "$programs/psql" -X -q -A -t -v ON_ERROR_STOP=1 -f "$work/questions.sql" >"$work/postgresql.$1" 2>&1 ||
        { tail -n 20 "$work/postgresql.$1" "$log"; die "a question was refused $1"; }
    end_server INT
    if grep -E 'terminated by signal|PANIC' "$log"; then die "a process of the server ended badly"; fi
    tail -n 2 "$log" | grep -q 'database system is shut down' || { tail -n 5 "$log"; die "the server did not end well"; }
}
# setpriv would have Freehold too, if the preload were set for it; it is there to become the server, with the same number.
as_server() {
    local preload=$1
    shift
    if [ "$user" = postgres ]; then
        exec setpriv --reuid postgres --regid postgres --clear-groups env LD_PRELOAD="$preload" "$programs/postgres" "$@"
    fi
    LD_PRELOAD=$preload exec "$programs/postgres" "$@"
}
served without ""
served with "$library"
same_answers postgresql

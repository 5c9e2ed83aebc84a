#!/usr/bin/env bash
# SQLite's shell: a database is filled, indexed, joined, vacuumed and checked, with the same answers as without.
. "$(dirname "$0")/common.sh"
need sqlite3 sqlite3
active sqlite3 :memory: 'select 1;'
cat >"$work/script.sql" <<'SQL'
create table t(id integer primary key, k integer, v text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
    insert into t select i, i * 7919 % 10007, printf('%0*d', i % 200, i) from n;
create index by_k on t(k);
create table u as select k, count(*) as c, group_concat(id) as ids from t group by k;
select sum(length(ids)), max(c), count(*) from u;
select sum(t.id) from t join u using (k) where c > 5;
select count(distinct v) from t;
update t set v = v || v where id % 3 = 0;
delete from t where id % 5 = 0;
select sum(length(v)), count(*) from t;
select k, sum(length(v)) over (order by id rows 50 preceding) from t order by v limit 20;
vacuum;
pragma integrity_check;
SQL
filled() { rm -f "$work/base.db"; sqlite3 "$work/base.db" <"$work/script.sql"; }
filled >"$work/without"
(export LD_PRELOAD=$library; filled) >"$work/with" || die "sqlite3"
cmp "$work/without" "$work/with" || die "other answers"
tail -n 1 "$work/with" | grep -qx ok || die "integrity_check"
under sqlite3 :memory: ".read $work/script.sql" | cmp - "$work/without" || die "other answers in memory"
say "$(wc -l <"$work/with") lines of answers, all the same"

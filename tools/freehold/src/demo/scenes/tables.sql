-- Made once, before any server is measured.
create table events (day int, id int, kind text, words text, parts jsonb) partition by range (day);
do $$
begin
  for d in 0..63 loop
    execute format('create table events_%s partition of events for values from (%s) to (%s)', d, d, d + 1);
    execute format('create index on events_%s (kind, id)', d);
  end loop;
end $$;
insert into events
select i % 64, i, 'kind-' || i % 97, repeat(md5(i::text), 1 + i % 12), jsonb_build_object('a', i, 'b', md5((i * 7)::text))
from generate_series(1, 60000) i;
vacuum analyze events;

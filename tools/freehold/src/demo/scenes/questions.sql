-- What one connection asks again and again: plans over many partitions, sorts, JSON, long texts, functions.
select count(*), sum(length(words)), md5(string_agg(words, ',' order by id)) from events where id % 3 = 0;
select length(jsonb_agg(to_jsonb(e))::text) from (select id, kind, parts from events order by words limit 6000) e;
select count(*) from events a join events b on a.kind = b.kind and a.id = b.id + 97 where a.day < 32;
select percentile_cont(0.5) within group (order by length(words)), count(distinct substr(words, 1, 4)) from events;
do $$
begin
  for n in 1..60 loop
    execute format('prepare p%s as select * from events where id = $1 and kind <> %L', n, n);
    execute format('execute p%s(%s)', n, n);
  end loop;
end $$;
deallocate all;
select length(string_agg(x::text, '')) from (select regexp_matches(words, '[0-9]+', 'g') x from events where id < 2000) s;

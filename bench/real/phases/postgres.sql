SELECT 'pid ' || pg_backend_pid();
\o /dev/null
-- Prepared statements and their plans stay for the session: many blocks that live long beside those of each query.
CREATE FUNCTION keep(phase int, width int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 100 LOOP
        EXECUTE format('PREPARE kept_%s_%s(int) AS SELECT %s FROM item WHERE id = $1', phase, i,
                       (SELECT string_agg(format('kind + %s AS c%s', k, k), ', ') FROM generate_series(1, width) AS k));
        EXECUTE format('EXECUTE kept_%s_%s(%s)', phase, i, i);
    END LOOP;
END $$;
SELECT keep(1, 5);
SELECT kind, count(*), string_agg(name, ',' ORDER BY name COLLATE "C") FROM item GROUP BY kind;
\o
\echo phase
\prompt '' go
\o /dev/null
SELECT keep(2, 10);
SELECT name COLLATE "C" AS n, array_agg(id) FROM item GROUP BY n;
\o
\echo phase
\prompt '' go
\o /dev/null
SELECT keep(3, 20);
SELECT * FROM item ORDER BY note COLLATE "C" DESC, name COLLATE "C";
\o
\echo phase
\prompt '' go
\o /dev/null
SELECT keep(4, 40);
SELECT kind, jsonb_object_agg(name, note) FROM item GROUP BY kind;
\o
\echo phase
\prompt '' go
\o /dev/null
SELECT keep(5, 80);
SELECT a.kind, count(DISTINCT b.id) FROM item a JOIN item b USING (name) GROUP BY a.kind;
\o
\echo phase
\prompt '' go

CREATE TABLE item AS SELECT i AS id, i * 7919 % 1000 AS kind, 'item-' || (i * 48271::bigint % 1000003) AS name,
    repeat(md5(i::text), 1 + i % 20) AS note FROM generate_series(1, 200000) AS i;
ANALYZE item;

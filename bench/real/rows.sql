-- Inserts @n rows, indexes them, and asks: many small allocations for rows and statements, page-sized ones for the cache.
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @n)
INSERT INTO item SELECT i, i * 7919 % 1000, 'item-' || (i * 48271 % 1000003), substr('the quick brown fox jumps over the lazy dog', 1, i % 43)
FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_kind ON item(kind, note);
SELECT count(*), sum(length(note)) FROM item;
SELECT kind, count(*), group_concat(substr(name, 6, 2), '') FROM item WHERE kind % 50 = 0 GROUP BY kind ORDER BY kind;
SELECT a.kind, count(*) FROM item a JOIN item b ON a.name = b.name WHERE a.kind < 20 GROUP BY a.kind;
UPDATE item SET note = upper(note) || name WHERE kind < 300;
DELETE FROM item WHERE kind > 800;
SELECT count(*), max(note), min(name) FROM item;
SELECT substr(name, 1, 8) AS head, count(DISTINCT kind) FROM item GROUP BY head ORDER BY 2 DESC, 1 LIMIT 20;

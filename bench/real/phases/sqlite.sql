-- A database in memory over phases: rows of one width are inserted, nine in ten of the phase before deleted.
CREATE TABLE t(id INTEGER PRIMARY KEY, phase INTEGER, name TEXT, body BLOB);
CREATE INDEX t_name ON t(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) INSERT INTO t(phase, name, body) SELECT 1, 'a' || i, zeroblob(60) FROM n;
SELECT count(*), sum(length(body)) FROM t;
.print phase
.shell read -r line
DELETE FROM t WHERE phase = 1 AND id * 7919 % 10 <> 0;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) INSERT INTO t(phase, name, body) SELECT 2, 'b' || i, zeroblob(200) FROM n;
SELECT phase, count(*), group_concat(name, '') FROM t GROUP BY phase;
.print phase
.shell read -r line
DELETE FROM t WHERE phase = 2 AND id * 7919 % 10 <> 0;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) INSERT INTO t(phase, name, body) SELECT 3, 'c' || i, zeroblob(700) FROM n;
SELECT substr(name, 1, 4), count(*), group_concat(hex(substr(body, 1, 40)), '') FROM t GROUP BY 1;
.print phase
.shell read -r line
DELETE FROM t WHERE phase = 3 AND id * 7919 % 10 <> 0;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t(phase, name, body) SELECT 4, 'd' || i, zeroblob(2500) FROM n;
SELECT phase, count(*), sum(length(body)) FROM t GROUP BY phase;
.print phase
.shell read -r line

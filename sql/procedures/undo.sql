-- undo: restore what a procedure has moved to the trash.
-- Run it: paimon-spark sql -f sql/procedures/undo.sql

USE paimon;

DROP DATABASE IF EXISTS demo_undo CASCADE;

CREATE DATABASE demo_undo;

USE demo_undo;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('milk', 1);

CALL sys.create_tag('prices', 'all');

CALL sys.rollback_to('prices', 1);

SELECT * FROM prices ORDER BY item;

-- What would be restored. Nothing changes.
EXPLAIN CALL sys.undo('prices', 'last');

-- `last` is the newest run; sys.trash lists the names of all.
CALL sys.undo('prices', 'last');

SELECT * FROM prices ORDER BY item;

SELECT tag_name FROM `prices$tags`;

-- A purge is undone too. By name.
CALL sys.purge_files('prices');

SELECT count(*) AS rows FROM prices;

CALL sys.undo(table => 'demo_undo.prices', run => 'last');

SELECT * FROM prices VERSION AS OF 2 ORDER BY item;

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_undo CASCADE;

-- rollback_to: make an earlier state the newest one.
-- Run it: paimon-spark sql -f sql/procedures/rollback_to.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rollback_to CASCADE;

CREATE DATABASE demo_rollback_to;

USE demo_rollback_to;

CREATE TABLE stock (item STRING, pieces INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO stock VALUES ('tea', 10);

CALL sys.create_tag('stock', 'opening');

INSERT INTO stock VALUES ('tea', 9), ('milk', 5);

INSERT INTO stock VALUES ('tea', 0);

INSERT INTO stock VALUES ('milk', 0);

-- What would be removed. Nothing changes.
EXPLAIN CALL sys.rollback_to('stock', 2);

-- A number is a snapshot, a text is a tag.
CALL sys.rollback_to('demo_rollback_to.stock', 3);

CALL sys.rollback_to(table => 'stock', snapshot_id => 2);

SELECT * FROM stock ORDER BY item;

-- The snapshots are deleted for good, instead of going to the trash.
CALL sys.rollback_to(table => 'stock', tag => 'opening', trash => false);

-- Already there: nothing to do.
CALL sys.rollback_to('stock', 'opening');

SELECT * FROM stock ORDER BY item;

DROP DATABASE demo_rollback_to CASCADE;

-- empty_trash: delete runs of the trash for good.
-- Run it: paimon-spark sql -f sql/procedures/empty_trash.sql

USE paimon;

DROP DATABASE IF EXISTS demo_empty_trash CASCADE;

CREATE DATABASE demo_empty_trash;

USE demo_empty_trash;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('milk', 1);

CALL sys.rollback_to('prices', 2);

CALL sys.rollback_to('prices', 1);

-- No retention has ended: nothing to do.
CALL sys.empty_trash('prices');

-- What would be deleted. Nothing changes.
EXPLAIN CALL sys.empty_trash(table => 'prices', older_than => '2100-01-01 00:00:00');

-- The newest run; sys.trash lists the names of all.
CALL sys.empty_trash(table => 'demo_empty_trash.prices', run => 'last');

CALL sys.empty_trash(table => 'prices', older_than => '2100-01-01 00:00:00');

CALL sys.trash('prices');

DROP DATABASE demo_empty_trash CASCADE;

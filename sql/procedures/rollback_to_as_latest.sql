-- rollback_to_as_latest: give a table an earlier content in a new snapshot.
-- Run it: paimon-spark sql -f sql/procedures/rollback_to_as_latest.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rollback_to_as_latest CASCADE;

CREATE DATABASE demo_rollback_to_as_latest;

USE demo_rollback_to_as_latest;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

CALL sys.create_tag('prices', 'opening', 1);

CALL sys.rollback_to_as_latest(table => 'prices', tag => 'opening');

SELECT * FROM prices;

CALL sys.rollback_to_as_latest(table => 'prices', snapshot_id => 2);

SELECT * FROM prices;

SELECT snapshot_id, commit_kind FROM `prices$snapshots` ORDER BY snapshot_id;

DROP DATABASE demo_rollback_to_as_latest CASCADE;

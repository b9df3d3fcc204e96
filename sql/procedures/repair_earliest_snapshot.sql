-- repair_earliest_snapshot: make a snapshot the earliest, in a table with a gap in its snapshots.
-- Run it: paimon-spark sql -f sql/procedures/repair_earliest_snapshot.sql

USE paimon;

DROP DATABASE IF EXISTS demo_repair_earliest_snapshot CASCADE;

CREATE DATABASE demo_repair_earliest_snapshot;

USE demo_repair_earliest_snapshot;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.expire_snapshots('prices', 1);

-- This table has no gap: snapshot 2 is the earliest already.
EXPLAIN CALL sys.repair_earliest_snapshot('prices', 2);

CALL sys.repair_earliest_snapshot(table => 'prices', snapshot_id => 2);

DROP DATABASE demo_repair_earliest_snapshot CASCADE;

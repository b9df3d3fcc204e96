-- reset_consumer: set the snapshot that a consumer reads next, or delete the consumer.
-- Run it: paimon-spark sql -f sql/procedures/reset_consumer.sql

USE paimon;

DROP DATABASE IF EXISTS demo_reset_consumer CASCADE;

CREATE DATABASE demo_reset_consumer;

USE demo_reset_consumer;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

INSERT INTO events VALUES (3, 'c');

-- By position: the consumer "dashboard" continues with snapshot 2.
CALL sys.reset_consumer('demo_reset_consumer.events', 'dashboard', 2);

-- By name, with the names of Flink or of Spark.
CALL sys.reset_consumer(table => 'events', consumer_id => 'export', next_snapshot_id => 3);

CALL sys.reset_consumer(table => 'events', consumerId => 'export', nextSnapshotId => 1);

SELECT * FROM `events$consumers` ORDER BY consumer_id;

-- Snapshots that a consumer has yet to read do not expire.
CALL sys.expire_snapshots('events', 1);

-- Without a snapshot the consumer is deleted, and snapshots can expire again.
CALL sys.reset_consumer('events', 'export');

CALL sys.expire_snapshots('events', 1);

SELECT snapshot_id FROM `events$snapshots` ORDER BY snapshot_id;

DROP DATABASE demo_reset_consumer CASCADE;

-- maintain: fix what doctor finds, in the order of gain, until a time budget ends.
-- Run it: paimon-spark sql -f sql/procedures/maintain.sql

USE paimon;

DROP DATABASE IF EXISTS demo_maintain CASCADE;

CREATE DATABASE demo_maintain;

USE demo_maintain;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true',
    'num-sorted-run.compaction-trigger' = '2', 'tag.creation-period' = 'daily');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

INSERT INTO events VALUES (3, 'c');

-- What a run would merge and delete.
EXPLAIN CALL sys.maintain('demo_maintain.*');

-- The statements that ran, and those that it does not run.
CALL sys.maintain('demo_maintain.*', '10m');

-- Only some of the actions.
CALL sys.maintain(table => 'events', budget => '1 h', actions => 'expire_snapshots,expire_tags');

SELECT * FROM events ORDER BY id;

DROP DATABASE demo_maintain CASCADE;

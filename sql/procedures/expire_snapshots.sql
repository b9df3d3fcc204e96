-- expire_snapshots: remove old snapshots and the files that only they reference.
-- Run it: paimon-spark sql -f sql/procedures/expire_snapshots.sql

USE paimon;

DROP DATABASE IF EXISTS demo_expire_snapshots CASCADE;

CREATE DATABASE demo_expire_snapshots;

USE demo_expire_snapshots;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

INSERT INTO events VALUES (3, 'c');

INSERT INTO events VALUES (4, 'd');

INSERT INTO events VALUES (5, 'e');

INSERT INTO events VALUES (6, 'f');

CALL sys.create_tag('events', 'keep', 1);

-- The files that would be removed, and what keeps the others. Nothing changes.
EXPLAIN CALL sys.expire_snapshots('events', 2);

-- Nothing is older than that: nothing to do.
CALL sys.expire_snapshots(table => 'events', retain_min => 1, older_than => '2000-01-01 00:00:00');

-- At most five remain, whatever their age, and at most one is removed by this CALL.
CALL sys.expire_snapshots(table => 'events', retain_max => 5, retain_min => 1, max_deletes => 1);

-- The limits as table options for this CALL only.
CALL sys.expire_snapshots(table => 'events', options => 'snapshot.num-retained.max=4,snapshot.num-retained.min=1');

-- sys.undo can restore what is removed.
CALL sys.expire_snapshots(table => 'events', retain_max => 3, retain_min => 1, trash => true);

-- By position: keep the newest two.
CALL sys.expire_snapshots('demo_expire_snapshots.events', 2);

SELECT snapshot_id FROM `events$snapshots` ORDER BY snapshot_id;

-- The tag can still be read, and so can the table.
SELECT count(*) AS then_rows FROM events VERSION AS OF 'keep';

SELECT count(*) AS now_rows FROM events;

DROP DATABASE demo_expire_snapshots CASCADE;

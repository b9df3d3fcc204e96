-- remove_orphan_files: delete old files that no snapshot, tag or branch references.
-- Run it: paimon-spark sql -f sql/procedures/remove_orphan_files.sql

USE paimon;

DROP DATABASE IF EXISTS demo_remove_orphan_files CASCADE;

CREATE DATABASE demo_remove_orphan_files;

USE demo_remove_orphan_files;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

-- A rollback leaves the files of snapshot 2 behind; they are younger than a day, so they stay for now.
CALL sys.rollback_to('events', 1);

CALL sys.remove_orphan_files('events');

-- By position: older_than, dry_run, parallelism, mode.
CALL sys.remove_orphan_files('demo_remove_orphan_files.events', '2023-10-31 12:00:00', true, 2, 'LOCAL');

-- By name, with a plan instead of the deletion.
EXPLAIN CALL sys.remove_orphan_files(table => 'events', older_than => '2023-10-31 12:00:00', dry_run => false);

-- All tables of a database, the directories listed in four tasks.
CALL sys.remove_orphan_files(table => 'demo_remove_orphan_files.*', parallelism => 4, mode => 'DISTRIBUTED',
  trash => false);

SELECT * FROM events;

DROP DATABASE demo_remove_orphan_files CASCADE;

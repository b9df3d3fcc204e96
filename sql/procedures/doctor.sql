-- doctor: report what is wrong with a table, and the statement that fixes it.
-- Run it: paimon-spark sql -f sql/procedures/doctor.sql

USE paimon;

DROP DATABASE IF EXISTS demo_doctor CASCADE;

CREATE DATABASE demo_doctor;

USE demo_doctor;

-- Writers do not compact a write-only table. An option without effect is found without any snapshot.
CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true',
    'num-sorted-run.compaction-trigger' = '3', 'tag.creation-period' = 'daily');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

CALL sys.create_tag('events', 'old');

-- The overwrite removes the files that the tag still needs.
INSERT OVERWRITE events VALUES (1, 'c');

CALL sys.expire_snapshots(table => 'events', retain_max => 1);

INSERT INTO events VALUES (3, 'c');

INSERT INTO events VALUES (4, 'd');

INSERT INTO events VALUES (5, 'e');

CALL sys.doctor('events');

-- Each finding has the statement that fixes it.
CALL sys.compact(table => 'demo_doctor.events');

CALL sys.delete_tag(table => 'demo_doctor.events', tag => 'old');

-- All tables of a database, only what is urgent, without listing directories.
CALL sys.doctor(table => 'demo_doctor.*', severity => 'warning', list_files => false);

DROP DATABASE demo_doctor CASCADE;

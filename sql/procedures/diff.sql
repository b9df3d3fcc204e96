-- diff: compare two snapshots of a table.
-- Run it: paimon-spark sql -f sql/procedures/diff.sql

USE paimon;

DROP DATABASE IF EXISTS demo_diff CASCADE;

CREATE DATABASE demo_diff;

USE demo_diff;

CREATE TABLE events (day STRING, id INT) PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '1');

INSERT INTO events VALUES ('mon', 1), ('mon', 2);

CALL sys.create_tag('events', 'monday');

ALTER TABLE events ADD COLUMN what STRING;

ALTER TABLE events SET TBLPROPERTIES ('snapshot.time-retained' = '2 h');

INSERT INTO events VALUES ('tue', 1, 'a');

-- From a tag to the latest snapshot.
CALL sys.diff('events', 'monday');

-- Two snapshots by name of the arguments; the last line of the answer has the query of the rows.
CALL sys.diff(table => 'events', from => '1', to => '2');

SELECT * FROM paimon_incremental_query('demo_diff.events', '1', '2');

DROP DATABASE demo_diff CASCADE;

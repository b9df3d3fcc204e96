-- history: list the snapshots, tags, branches and changelogs of a table in one timeline.
-- Run it: paimon-spark sql -f sql/procedures/history.sql

USE paimon;

DROP DATABASE IF EXISTS demo_history CASCADE;

CREATE DATABASE demo_history;

USE demo_history;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');

INSERT INTO events VALUES (1, 'a'), (2, 'b');

CALL sys.create_tag('events', 'before');

DELETE FROM events WHERE id = 2;

CALL sys.compact('events');

CALL sys.history('events');

-- The newest event only.
CALL sys.history(table => 'events', limit => 1);

DROP DATABASE demo_history CASCADE;

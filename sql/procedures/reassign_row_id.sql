-- reassign_row_id: give the rows of each partition of a table with data evolution consecutive row ids.
-- Run it: paimon-spark sql -f sql/procedures/reassign_row_id.sql

USE paimon;

DROP DATABASE IF EXISTS demo_row_ids CASCADE;

CREATE DATABASE demo_row_ids;

USE demo_row_ids;

CREATE TABLE events (id INT, day STRING) PARTITIONED BY (day)
TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');

INSERT INTO events VALUES (1, 'mon');

INSERT INTO events VALUES (2, 'tue');

INSERT INTO events VALUES (3, 'mon');

INSERT INTO events VALUES (4, 'tue');

-- The plan: which partitions get new ids. Nothing changes.
EXPLAIN CALL sys.reassign_row_id('events', 'day=mon');

CALL sys.reassign_row_id('events', 'day=mon');

SELECT *, _ROW_ID FROM events ORDER BY id;

-- All arguments by name. The ids of the first partition have no gaps.
CALL sys.reassign_row_id(table => 'demo_row_ids.events', partitions => 'day=mon;day=tue');

SELECT *, _ROW_ID FROM events ORDER BY id;

-- Nothing is left to do.
CALL sys.reassign_row_id('events');

DROP DATABASE demo_row_ids CASCADE;

-- why: explain why a file of a table exists.
-- Run it: paimon-spark sql -f sql/procedures/why.sql

USE paimon;

DROP DATABASE IF EXISTS demo_why CASCADE;

CREATE DATABASE demo_why;

USE demo_why;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');

INSERT INTO events VALUES (1, 'a');

INSERT INTO events VALUES (2, 'b');

-- Data files have unique names, which `events$files` lists; a snapshot's file is easier to write down.
CALL sys.why('events', 'snapshot-1');

CALL sys.why(table => 'events', file => 'data-of-another-table.parquet');

DROP DATABASE demo_why CASCADE;

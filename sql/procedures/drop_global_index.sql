-- drop_global_index: remove a global index from a table.
-- Run it: paimon-spark sql -f sql/procedures/drop_global_index.sql

USE paimon;

DROP DATABASE IF EXISTS demo_drop_global_index CASCADE;

CREATE DATABASE demo_drop_global_index;

USE demo_drop_global_index;

CREATE TABLE events (id INT, kind STRING, day STRING) PARTITIONED BY (day) TBLPROPERTIES ('row-tracking.enabled' = 'true');

INSERT INTO events VALUES (1, 'open', '0101'), (2, 'close', '0101'), (3, 'open', '0102');

CALL sys.create_global_index('events', 'id', 'btree');

CALL sys.drop_global_index(table => 'events', index_column => 'id', index_type => 'btree', partitions => 'day=0101', dry_run => true);

CALL sys.drop_global_index('events', 'id', 'btree');

SELECT count(*) AS index_files FROM `events$table_indexes`;

DROP DATABASE demo_drop_global_index CASCADE;

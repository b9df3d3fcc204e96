-- create_global_index: index the row ids of each value of a column.
-- Run it: paimon-spark sql -f sql/procedures/create_global_index.sql

USE paimon;

DROP DATABASE IF EXISTS demo_create_global_index CASCADE;

CREATE DATABASE demo_create_global_index;

USE demo_create_global_index;

CREATE TABLE events (id INT, kind STRING, day STRING) PARTITIONED BY (day) TBLPROPERTIES ('row-tracking.enabled' = 'true');

INSERT INTO events VALUES (1, 'open', '0101'), (2, 'close', '0101'), (3, 'open', '0102');

CALL sys.create_global_index('events', 'id', 'btree');

CALL sys.create_global_index(table => 'events', index_column => 'kind', index_type => 'bitmap', partitions => 'day=0101',
  options => 'bitmap-index.compression=zstd');

SELECT `partition`, index_type, index_field_name, row_count FROM `events$table_indexes` ORDER BY ALL;

SELECT id, kind FROM events WHERE id = 3;

DROP DATABASE demo_create_global_index CASCADE;

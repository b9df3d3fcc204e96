-- compact_database: compact all tables of some databases.
-- Run it: paimon-spark sql -f sql/procedures/compact_database.sql

USE paimon;

DROP DATABASE IF EXISTS demo_compact_database CASCADE;

CREATE DATABASE demo_compact_database;

USE demo_compact_database;

CREATE TABLE table_a (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

CREATE TABLE table_b (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

CREATE TABLE ignore (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

INSERT INTO table_a VALUES (1, 'a');

INSERT INTO table_a VALUES (1, 'b');

INSERT INTO table_b VALUES (1, 'a');

INSERT INTO table_b VALUES (2, 'b');

INSERT INTO ignore VALUES (1);

INSERT INTO ignore VALUES (2);

-- What would be merged? Nothing changes.
EXPLAIN CALL sys.compact_database('demo_compact_.*', '', 'table_a');

-- No partition has been idle for a day: nothing to do.
CALL sys.compact_database(including_databases => 'demo_compact_database', partition_idle_time => '1 d', compact_strategy => 'minor');

-- By position: databases, mode, tables, tables to leave out, options.
CALL sys.compact_database('demo_compact_database', 'combined', 'table_.*', 'ignore', 'sink.parallelism=4');

-- By name: one table after the other.
CALL sys.compact_database(including_databases => 'demo_compact_database', mode => 'divided', including_tables => '.*', excluding_tables => 'nothing', table_options => 'target-file-size=64 mb');

SELECT * FROM table_a;

DROP DATABASE demo_compact_database CASCADE;

-- migrate_database: migrate all tables of a database of Spark's own catalog.
-- Run it: paimon-spark sql -f sql/procedures/migrate_database.sql

USE paimon;

DROP DATABASE IF EXISTS spark_catalog.demo_migrate_database CASCADE;

DROP DATABASE IF EXISTS demo_migrate_database CASCADE;

CREATE DATABASE spark_catalog.demo_migrate_database;

CREATE DATABASE demo_migrate_database;

-- A table of Spark's own catalog.
CREATE TABLE spark_catalog.demo_migrate_database.visits (page STRING, seen TIMESTAMP, amount DECIMAL(10, 2), dt STRING)
USING parquet PARTITIONED BY (dt);

INSERT INTO spark_catalog.demo_migrate_database.visits VALUES
  ('a', TIMESTAMP '2024-05-14 10:00:00', 1.50, '2024-05-14'), ('b', TIMESTAMP '1905-01-01 00:00:00.123456', 2, 'x:y');

CREATE TABLE spark_catalog.demo_migrate_database.lines (line STRING) USING csv;

-- Files of the format csv cannot be migrated.
CALL sys.migrate_database(
  source_type => 'hive', database => 'demo_migrate_database', options => 'target-file-size=64 mb', parallelism => 1,
  options_map => map('file.compression', 'zstd')
);

SELECT * FROM demo_migrate_database.visits ORDER BY page;

SHOW TABLES IN spark_catalog.demo_migrate_database;

DROP DATABASE spark_catalog.demo_migrate_database CASCADE;

DROP DATABASE demo_migrate_database CASCADE;

-- migrate_file: add the files of a table to a Paimon table.
-- Run it: paimon-spark sql -f sql/procedures/migrate_file.sql

USE paimon;

DROP DATABASE IF EXISTS spark_catalog.demo_migrate_file CASCADE;

DROP DATABASE IF EXISTS demo_migrate_file CASCADE;

CREATE DATABASE spark_catalog.demo_migrate_file;

CREATE DATABASE demo_migrate_file;

-- A table of Spark's own catalog.
CREATE TABLE spark_catalog.demo_migrate_file.visits (page STRING, seen TIMESTAMP, amount DECIMAL(10, 2), dt STRING)
USING parquet PARTITIONED BY (dt);

INSERT INTO spark_catalog.demo_migrate_file.visits VALUES
  ('a', TIMESTAMP '2024-05-14 10:00:00', 1.50, '2024-05-14'), ('b', TIMESTAMP '1905-01-01 00:00:00.123456', 2, 'x:y');

CREATE TABLE demo_migrate_file.visits (page STRING, seen TIMESTAMP, amount DECIMAL(10, 2), dt STRING) PARTITIONED BY (dt);

INSERT INTO demo_migrate_file.visits VALUES ('c', NULL, NULL, '2024-05-14');

CALL sys.migrate_file(
  source_type => 'hive', source_table => 'demo_migrate_file.visits', target_table => 'demo_migrate_file.visits',
  delete_origin => false, parallelism => 1
);

SELECT * FROM demo_migrate_file.visits ORDER BY page;

-- Again: nothing is left to do but to drop the table.
CALL sys.migrate_file('hive', 'demo_migrate_file.visits', 'demo_migrate_file.visits', true);

SHOW TABLES IN spark_catalog.demo_migrate_file;

DROP DATABASE spark_catalog.demo_migrate_file CASCADE;

DROP DATABASE demo_migrate_file CASCADE;

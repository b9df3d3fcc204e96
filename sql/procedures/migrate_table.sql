-- migrate_table: make a table of Spark's own catalog a Paimon table.
-- Run it: paimon-spark sql -f sql/procedures/migrate_table.sql

USE paimon;

DROP DATABASE IF EXISTS spark_catalog.demo_migrate_table CASCADE;

DROP DATABASE IF EXISTS demo_migrate_table CASCADE;

CREATE DATABASE spark_catalog.demo_migrate_table;

CREATE DATABASE demo_migrate_table;

-- A table of Spark's own catalog.
CREATE TABLE spark_catalog.demo_migrate_table.visits (page STRING, seen TIMESTAMP, amount DECIMAL(10, 2), dt STRING)
USING parquet PARTITIONED BY (dt);

INSERT INTO spark_catalog.demo_migrate_table.visits VALUES
  ('a', TIMESTAMP '2024-05-14 10:00:00', 1.50, '2024-05-14'), ('b', TIMESTAMP '1905-01-01 00:00:00.123456', 2, 'x:y');

-- The same name in this catalog; the table of Spark is dropped.
CALL sys.migrate_table('hive', 'demo_migrate_table.visits');

SELECT page, unix_micros(seen) AS seen, amount, dt FROM demo_migrate_table.visits ORDER BY page;

SHOW TABLES IN spark_catalog.demo_migrate_table;

INSERT INTO demo_migrate_table.visits VALUES ('c', NULL, NULL, '2024-05-14');

-- Rewrites the files, with statistics.
CALL sys.compact(table => 'demo_migrate_table.visits', order_strategy => 'order', order_by => 'page');

SELECT page, unix_micros(seen) AS seen, amount, dt FROM demo_migrate_table.visits ORDER BY page;

CREATE TABLE spark_catalog.demo_migrate_table.notes (id INT, note STRING) USING orc;

INSERT INTO spark_catalog.demo_migrate_table.notes VALUES (1, 'one'), (2, NULL);

CALL sys.migrate_table(
  source_type => 'hive', `table` => 'demo_migrate_table.notes', target_table => 'demo_migrate_table.texts',
  options => 'target-file-size=64 mb', options_map => map('file.format', 'parquet'), parallelism => 2,
  delete_origin => false
);

SELECT * FROM demo_migrate_table.texts ORDER BY id;

SHOW TABLES IN spark_catalog.demo_migrate_table;

DROP DATABASE spark_catalog.demo_migrate_table CASCADE;

DROP DATABASE demo_migrate_table CASCADE;

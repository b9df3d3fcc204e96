-- copy_files: copy tables into another warehouse.
-- Run it: paimon-spark sql -d copies=/data/copies -f sql/procedures/copy_files.sql

USE paimon;

DROP DATABASE IF EXISTS demo_copy_files CASCADE;

CREATE DATABASE demo_copy_files;

USE demo_copy_files;

CREATE TABLE prices (item STRING, price INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES (
  'primary-key' = 'item,dt', 'bucket' = '1'
);

INSERT INTO prices VALUES ('tea', 3, '2024-05-14'), ('milk', 1, '2024-05-15');

CALL sys.copy_files('', 'demo_copy_files', 'prices', '', '${copies}', 'demo_copy_files', 'archive', '', 2);

-- From that warehouse, under another name.
CALL sys.copy_files(
  warehouse => '${copies}', database => 'demo_copy_files', `table` => 'archive', catalog_conf => 'metastore=filesystem',
  target_warehouse => '${copies}', target_database => 'demo_copy_files', target_table => 'again',
  target_catalog_conf => 'metastore=filesystem', parallelism => 1
);

DROP DATABASE demo_copy_files CASCADE;

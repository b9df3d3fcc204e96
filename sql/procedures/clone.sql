-- clone: copy a table, a database or a whole warehouse.
-- Run it: paimon-spark sql -d copies=/data/copies -f sql/procedures/clone.sql

USE paimon;

DROP DATABASE IF EXISTS demo_clone CASCADE;

CREATE DATABASE demo_clone;

USE demo_clone;

CREATE TABLE prices (item STRING, price INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES (
  'primary-key' = 'item,dt', 'bucket' = '1'
);

INSERT INTO prices VALUES ('tea', 3, '2024-05-14'), ('milk', 1, '2024-05-15');

CREATE TABLE notes (note STRING);

-- A database, without one of its tables.
CALL sys.clone(
  database => 'demo_clone', target_database => 'demo_clone_backup', excluded_tables => 'demo_clone.notes',
  prefer_file_format => '', clone_from => 'paimon'
);

SELECT * FROM demo_clone_backup.prices ORDER BY item;

-- A partition of a table.
CALL sys.clone(
  database => 'demo_clone', `table` => 'prices', target_database => 'demo_clone_backup', target_table => 'day',
  where => "dt = '2024-05-14'", parallelism => 2, clone_from => 'paimon'
);

SELECT * FROM demo_clone_backup.day;

-- The schemas, into another warehouse and back.
CALL sys.clone(
  database => 'demo_clone', target_catalog_conf => 'warehouse=${copies}', meta_only => true, clone_from => 'paimon'
);

CALL sys.clone(
  catalog_conf => 'warehouse=${copies}', database => 'demo_clone', target_database => 'demo_clone_backup',
  included_tables => 'notes', clone_if_exists => false, clone_from => 'paimon'
);

SELECT * FROM demo_clone_backup.notes;

DROP DATABASE demo_clone_backup CASCADE;

DROP DATABASE demo_clone CASCADE;

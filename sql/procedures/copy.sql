-- copy: copy the files of a table into another one.
-- Run it: paimon-spark sql -f sql/procedures/copy.sql

USE paimon;

DROP DATABASE IF EXISTS demo_copy CASCADE;

CREATE DATABASE demo_copy;

USE demo_copy;

CREATE TABLE prices (item STRING, price INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES (
  'primary-key' = 'item,dt', 'bucket' = '1'
);

INSERT INTO prices VALUES ('tea', 3, '2024-05-14'), ('milk', 1, '2024-05-15');

-- What would be written. Nothing changes.
EXPLAIN CALL sys.copy('prices', 'archive');

CALL sys.copy('demo_copy.prices', 'demo_copy.archive');

SELECT * FROM archive ORDER BY item;

INSERT INTO prices VALUES ('tea', 4, '2024-05-14'), ('milk', 2, '2024-05-15');

-- Only one partition again.
CALL sys.copy(source_table => 'prices', target_table => 'archive', where => "dt = '2024-05-15'");

SELECT * FROM archive ORDER BY item;

DROP DATABASE demo_copy CASCADE;

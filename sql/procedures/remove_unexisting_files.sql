-- remove_unexisting_files: remove data files that do not exist from the metadata.
-- Run it: paimon-spark sql -f sql/procedures/remove_unexisting_files.sql

USE paimon;

DROP DATABASE IF EXISTS demo_remove_unexisting_files CASCADE;

CREATE DATABASE demo_remove_unexisting_files;

USE demo_remove_unexisting_files;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

-- All files exist: nothing to do.
CALL sys.remove_unexisting_files(table => 'prices', dry_run => true, parallelism => 4);

CALL sys.remove_unexisting_files('demo_remove_unexisting_files.prices');

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_remove_unexisting_files CASCADE;

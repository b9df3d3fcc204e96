-- remove_unexisting_manifests: remove manifests that do not exist from the latest snapshot.
-- Run it: paimon-spark sql -f sql/procedures/remove_unexisting_manifests.sql

USE paimon;

DROP DATABASE IF EXISTS demo_remove_unexisting_manifests CASCADE;

CREATE DATABASE demo_remove_unexisting_manifests;

USE demo_remove_unexisting_manifests;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

-- All files exist: nothing to do.
EXPLAIN CALL sys.remove_unexisting_manifests('prices');

CALL sys.remove_unexisting_manifests('demo_remove_unexisting_manifests.prices');

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_remove_unexisting_manifests CASCADE;

-- fast_forward: replace the state of the table by that of a branch.
-- Run it: paimon-spark sql -f sql/procedures/fast_forward.sql

USE paimon;

DROP DATABASE IF EXISTS demo_fast_forward CASCADE;

CREATE DATABASE demo_fast_forward;

USE demo_fast_forward;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.create_tag('prices', 'opening', 1);

CALL sys.create_branch('prices', 'trial', 'opening');

INSERT INTO `prices$branch_trial` VALUES ('salt', 9);

-- What would be written and removed. Nothing changes.
EXPLAIN CALL sys.fast_forward(table => 'prices', branch => 'trial');

CALL sys.fast_forward(table => 'prices', branch => 'trial');

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_fast_forward CASCADE;

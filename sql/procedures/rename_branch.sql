-- rename_branch: give a branch another name.
-- Run it: paimon-spark sql -f sql/procedures/rename_branch.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rename_branch CASCADE;

CREATE DATABASE demo_rename_branch;

USE demo_rename_branch;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.create_branch('prices', 'trial');

CALL sys.rename_branch(table => 'prices', from_branch => 'trial', to_branch => 'release');

SELECT branch_name FROM `prices$branches`;

DROP DATABASE demo_rename_branch CASCADE;

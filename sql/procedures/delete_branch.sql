-- delete_branch: delete branches; their own data files are left to remove_orphan_files.
-- Run it: paimon-spark sql -f sql/procedures/delete_branch.sql

USE paimon;

DROP DATABASE IF EXISTS demo_delete_branch CASCADE;

CREATE DATABASE demo_delete_branch;

USE demo_delete_branch;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.create_branch('prices', 'trial');

CALL sys.create_branch('prices', 'draft');

CALL sys.create_branch('prices', 'old');

CALL sys.delete_branch(table => 'prices', branch => 'trial', trash => false);

-- Several at once.
CALL sys.delete_branch('prices', 'draft, old');

SELECT branch_name FROM `prices$branches`;

DROP DATABASE demo_delete_branch CASCADE;

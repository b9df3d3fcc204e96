-- merge_branch: add the new files of a branch to the table.
-- Run it: paimon-spark sql -f sql/procedures/merge_branch.sql

USE paimon;

DROP DATABASE IF EXISTS demo_merge_branch CASCADE;

CREATE DATABASE demo_merge_branch;

USE demo_merge_branch;

CREATE TABLE prices (item STRING, price INT);

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

CALL sys.create_tag('prices', 'opening');

CALL sys.create_branch('prices', 'trial', 'opening');

INSERT INTO `prices$branch_trial` VALUES ('salt', 9);

INSERT INTO prices VALUES ('bread', 2);

CALL sys.merge_branch(table => 'prices', source_branch => 'trial');

SELECT * FROM prices ORDER BY item;

-- The other direction.
CALL sys.merge_branch(table => 'prices', source_branch => 'main', target_branch => 'trial');

SELECT * FROM `prices$branch_trial` ORDER BY item;

-- Nothing is left to merge.
CALL sys.merge_branch('prices', 'trial', 'main');

DROP DATABASE demo_merge_branch CASCADE;

-- create_branch: work on a copy of a table that shares its files.
-- Run it: paimon-spark sql -f sql/procedures/create_branch.sql

USE paimon;

DROP DATABASE IF EXISTS demo_create_branch CASCADE;

CREATE DATABASE demo_create_branch;

USE demo_create_branch;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.create_tag('prices', 'opening', 1);

-- A branch of a tag.
CALL sys.create_branch(table => 'prices', branch => 'trial', tag => 'opening');

-- By position: a tag as the third argument.
CALL sys.create_branch('prices', 'second', 'opening');

-- A branch of a snapshot.
CALL sys.create_branch(table => 'prices', branch => 'newest', snapshot_id => 2);

-- An empty branch; accepted if it exists.
CALL sys.create_branch(table => 'prices', branch => 'draft', ignoreIfExists => true);

CALL sys.create_branch('prices', 'draft', true);

INSERT INTO `prices$branch_trial` VALUES ('salt', 9);

SELECT * FROM `prices$branch_trial` ORDER BY item;

SELECT * FROM prices ORDER BY item;

SELECT branch_name FROM `prices$branches` ORDER BY branch_name;

-- What would be written. Nothing changes.
EXPLAIN CALL sys.create_branch('prices', 'other', 'opening');

DROP DATABASE demo_create_branch CASCADE;

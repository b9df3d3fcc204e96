-- purge_files: empty a table, and delete all its files and history.
-- Run it: paimon-spark sql -f sql/procedures/purge_files.sql

USE paimon;

DROP DATABASE IF EXISTS demo_purge_files CASCADE;

CREATE DATABASE demo_purge_files;

USE demo_purge_files;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

CALL sys.create_tag('prices', 'opening', 1);

CALL sys.create_branch('prices', 'trial', 'opening');

CALL sys.purge_files(table => 'prices');

SELECT snapshot_id, commit_kind, total_record_count FROM `prices$snapshots`;

SELECT tag_name FROM `prices$tags`;

SELECT branch_name FROM `prices$branches`;

-- Again: nothing is left.
CALL sys.purge_files('demo_purge_files.prices');

INSERT INTO prices VALUES ('milk', 1);

-- This time for good.
CALL sys.purge_files(table => 'prices', trash => false);

INSERT INTO prices VALUES ('salt', 2);

SELECT * FROM prices;

DROP DATABASE demo_purge_files CASCADE;

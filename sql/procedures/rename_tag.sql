-- rename_tag: give a tag another name.
-- Run it: paimon-spark sql -f sql/procedures/rename_tag.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rename_tag CASCADE;

CREATE DATABASE demo_rename_tag;

USE demo_rename_tag;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

CALL sys.create_tag('prices', 'current', 1);

CALL sys.rename_tag(table => 'prices', tag => 'current', target_tag => 'opening');

SELECT tag_name, snapshot_id FROM `prices$tags`;

DROP DATABASE demo_rename_tag CASCADE;

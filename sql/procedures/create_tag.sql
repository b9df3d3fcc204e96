-- create_tag: keep a state of a table under a name.
-- Run it: paimon-spark sql -f sql/procedures/create_tag.sql

USE paimon;

DROP DATABASE IF EXISTS demo_create_tag CASCADE;

CREATE DATABASE demo_create_tag;

USE demo_create_tag;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

INSERT INTO prices VALUES ('tea', 4);

-- The newest snapshot.
CALL sys.create_tag(table => 'prices', tag => 'spring');

-- An earlier snapshot, kept for a week.
CALL sys.create_tag(table => 'prices', tag => 'opening', snapshot => 1, time_retained => '7 d');

-- By position: table, tag, snapshot id.
CALL sys.create_tag('demo_create_tag.prices', 'first', 1);

-- By position: a string as the third argument is the retention of the tag.
CALL sys.create_tag('demo_create_tag.prices', 'short', '12 h');

-- What would be written. Nothing changes.
CALL sys.create_tag(table => 'prices', tag => 'summer', dry_run => true);

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags` ORDER BY tag_name;

SELECT * FROM prices VERSION AS OF 'opening' ORDER BY item;

DROP DATABASE demo_create_tag CASCADE;

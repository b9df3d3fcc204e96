-- replace_tag: point a tag to another snapshot.
-- Run it: paimon-spark sql -f sql/procedures/replace_tag.sql

USE paimon;

DROP DATABASE IF EXISTS demo_replace_tag CASCADE;

CREATE DATABASE demo_replace_tag;

USE demo_replace_tag;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

CALL sys.create_tag('prices', 'current', 1);

CALL sys.replace_tag(table => 'prices', tag => 'current', snapshot_id => 2, time_retained => '7 d');

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags`;

-- By position: the newest snapshot.
CALL sys.replace_tag('prices', 'current');

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags`;

DROP DATABASE demo_replace_tag CASCADE;

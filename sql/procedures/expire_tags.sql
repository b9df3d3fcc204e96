-- expire_tags: delete tags whose retention has ended, or that are old.
-- Run it: paimon-spark sql -f sql/procedures/expire_tags.sql

USE paimon;

DROP DATABASE IF EXISTS demo_expire_tags CASCADE;

CREATE DATABASE demo_expire_tags;

USE demo_expire_tags;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

CALL sys.create_tag(table => 'prices', tag => 'brief', time_retained => '1 ms');

CALL sys.create_tag(table => 'prices', tag => 'long', time_retained => '30 d');

CALL sys.create_tag('prices', 'for_ever');

-- Only the retention of `brief` has ended.
CALL sys.expire_tags('demo_expire_tags.prices');

SELECT tag_name FROM `prices$tags` ORDER BY tag_name;

CALL sys.expire_tags('prices');

-- All tags are older than the year 2100.
EXPLAIN CALL sys.expire_tags('prices', '2100-01-01 00:00:00');

CALL sys.expire_tags(table => 'prices', older_than => '2100-01-01', trash => true);

SELECT tag_name FROM `prices$tags`;

DROP DATABASE demo_expire_tags CASCADE;

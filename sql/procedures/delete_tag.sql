-- delete_tag: delete tags, and the files that only they protect.
-- Run it: paimon-spark sql -f sql/procedures/delete_tag.sql

USE paimon;

DROP DATABASE IF EXISTS demo_delete_tag CASCADE;

CREATE DATABASE demo_delete_tag;

USE demo_delete_tag;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3), ('milk', 1);

CALL sys.create_tag('prices', 'a');

CALL sys.create_tag('prices', 'b');

CALL sys.create_tag('prices', 'c');

-- The files that would be removed, and what keeps the others. Nothing changes.
EXPLAIN CALL sys.delete_tag('prices', 'a');

CALL sys.delete_tag('demo_delete_tag.prices', 'a');

-- Several at once.
CALL sys.delete_tag(table => 'prices', tag => 'b,c', trash => true);

-- A tag that does not exist: nothing to do.
CALL sys.delete_tag(table => 'prices', tag => 'a');

SELECT tag_name FROM `prices$tags`;

DROP DATABASE demo_delete_tag CASCADE;

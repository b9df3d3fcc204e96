-- create_tag_from_timestamp: tag the first snapshot from a time on.
-- Run it: paimon-spark sql -f sql/procedures/create_tag_from_timestamp.sql

USE paimon;

DROP DATABASE IF EXISTS demo_create_tag_from_timestamp CASCADE;

CREATE DATABASE demo_create_tag_from_timestamp;

USE demo_create_tag_from_timestamp;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

-- Every snapshot is later than 1970: the first one is tagged.
EXPLAIN CALL sys.create_tag_from_timestamp('prices', 'opening', 0);

CALL sys.create_tag_from_timestamp(table => 'prices', tag => 'opening', timestamp => 0, time_retained => '30 d');

SELECT * FROM prices VERSION AS OF 'opening';

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags`;

DROP DATABASE demo_create_tag_from_timestamp CASCADE;

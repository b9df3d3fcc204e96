-- create_tag_from_watermark: tag the first snapshot with at least some watermark.
-- Run it: paimon-spark sql -f sql/procedures/create_tag_from_watermark.sql

USE paimon;

DROP DATABASE IF EXISTS demo_create_tag_from_watermark CASCADE;

CREATE DATABASE demo_create_tag_from_watermark;

USE demo_create_tag_from_watermark;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

-- Streaming jobs write watermarks; a batch write has one by this option.
INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '1000') */ VALUES ('tea', 4);

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '2000') */ VALUES ('tea', 5);

EXPLAIN CALL sys.create_tag_from_watermark('prices', 'late', 1001);

CALL sys.create_tag_from_watermark(table => 'prices', tag => 'early', watermark => 500, time_retained => '30 d');

CALL sys.create_tag_from_watermark('demo_create_tag_from_watermark.prices', 'late', 1001);

SELECT tag_name, snapshot_id, time_retained FROM `prices$tags` ORDER BY tag_name;

DROP DATABASE demo_create_tag_from_watermark CASCADE;

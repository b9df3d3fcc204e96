-- trigger_tag_automatic_creation: create the automatic tags that are due.
-- Run it: paimon-spark sql -f sql/procedures/trigger_tag_automatic_creation.sql

USE paimon;

DROP DATABASE IF EXISTS demo_trigger_tag_automatic_creation CASCADE;

CREATE DATABASE demo_trigger_tag_automatic_creation;

USE demo_trigger_tag_automatic_creation;

-- Commits to a write-only table create no tags.
CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES (
  'primary-key' = 'item', 'bucket' = '1', 'write-only' = 'true',
  'tag.automatic-creation' = 'watermark', 'tag.creation-period' = 'daily', 'tag.num-retained-max' = '2'
);

-- Snapshots with the watermarks 2024-05-14 10:00, 2024-05-15 00:00 and 2024-05-16 00:00.
INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '1715680800000') */ VALUES ('tea', 3);

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '1715731200000') */ VALUES ('tea', 4);

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '1715817600000') */ VALUES ('tea', 5);

EXPLAIN CALL sys.trigger_tag_automatic_creation('prices');

CALL sys.trigger_tag_automatic_creation(table => 'prices');

SELECT tag_name, snapshot_id FROM `prices$tags` ORDER BY tag_name;

-- Again: nothing is due.
CALL sys.trigger_tag_automatic_creation('demo_trigger_tag_automatic_creation.prices');

DROP DATABASE demo_trigger_tag_automatic_creation CASCADE;

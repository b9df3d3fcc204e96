-- rollback_to_watermark: roll a table back to its newest snapshot up to a watermark.
-- Run it: paimon-spark sql -f sql/procedures/rollback_to_watermark.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rollback_to_watermark CASCADE;

CREATE DATABASE demo_rollback_to_watermark;

USE demo_rollback_to_watermark;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '1000') */ VALUES ('tea', 3);

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '2000') */ VALUES ('tea', 4);

INSERT INTO prices /*+ OPTIONS('end-input.watermark' = '3000') */ VALUES ('tea', 5);

EXPLAIN CALL sys.rollback_to_watermark('prices', 2000);

CALL sys.rollback_to_watermark(table => 'prices', watermark => 2500, trash => true);

SELECT * FROM prices;

DROP DATABASE demo_rollback_to_watermark CASCADE;

-- rollback_to_timestamp: roll a table back to its state at a time.
-- Run it: paimon-spark sql -f sql/procedures/rollback_to_timestamp.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rollback_to_timestamp CASCADE;

CREATE DATABASE demo_rollback_to_timestamp;

USE demo_rollback_to_timestamp;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

-- 9999999999999 ms after 1970 is later than every snapshot: nothing is rolled back.
CALL sys.rollback_to_timestamp(table => 'prices', timestamp => 9999999999999, trash => false);

SELECT * FROM prices;

DROP DATABASE demo_rollback_to_timestamp CASCADE;

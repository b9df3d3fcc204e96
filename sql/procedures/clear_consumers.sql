-- clear_consumers: delete the consumers of a table.
-- Run it: paimon-spark sql -f sql/procedures/clear_consumers.sql

USE paimon;

DROP DATABASE IF EXISTS demo_clear_consumers CASCADE;

CREATE DATABASE demo_clear_consumers;

USE demo_clear_consumers;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

CALL sys.reset_consumer('prices', 'etl_hourly', 2);

CALL sys.reset_consumer('prices', 'etl_daily', 1);

CALL sys.reset_consumer('prices', 'report', 3);

CALL sys.clear_consumers(table => 'prices', including_consumers => 'etl_.*', excluding_consumers => 'etl_daily');

SELECT * FROM `prices$consumers` ORDER BY consumer_id;

-- All that are left.
CALL sys.clear_consumers('prices');

SELECT * FROM `prices$consumers`;

DROP DATABASE demo_clear_consumers CASCADE;

-- rollback: roll a table back to a snapshot or a tag.
-- Run it: paimon-spark sql -f sql/procedures/rollback.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rollback CASCADE;

CREATE DATABASE demo_rollback;

USE demo_rollback;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('tea', 5);

INSERT INTO prices VALUES ('tea', 6);

CALL sys.create_tag('prices', 'opening', 1);

CALL sys.rollback(table => 'prices', snapshot => 3);

-- A string of digits is the id of a snapshot.
CALL sys.rollback(table => 'prices', version => '2');

-- The snapshots go to the trash, as by default.
CALL sys.rollback(table => 'prices', tag => 'opening', trash => true);

SELECT * FROM prices;

DROP DATABASE demo_rollback CASCADE;

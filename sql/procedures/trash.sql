-- trash: list what procedures have moved to the trash.
-- Run it: paimon-spark sql -f sql/procedures/trash.sql

USE paimon;

DROP DATABASE IF EXISTS demo_trash CASCADE;

CREATE DATABASE demo_trash;

USE demo_trash;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('milk', 1);

CALL sys.rollback_to('prices', 2);

CALL sys.create_branch('prices', 'trial');

CALL sys.delete_branch('prices', 'trial');

-- The newest run first. By name, all tables of a database.
CALL sys.trash('prices');

CALL sys.trash(table => 'demo_trash.*');

DROP DATABASE demo_trash CASCADE;

-- create_privileged_user: create a user, who has no privileges at first.
-- Run it with a new directory: paimon-spark sql -d guarded=/data/guarded -f sql/procedures/create_privileged_user.sql

CREATE CATALOG everybody WITH ('type' = 'paimon', 'warehouse' = '${guarded}');

USE everybody;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

CALL sys.init_file_based_privilege('the password of root');

CREATE CATALOG administrator WITH (
  'type' = 'paimon', 'warehouse' = '${guarded}', 'user' = 'root', 'password' = 'the password of root'
);

USE administrator;

EXPLAIN CALL sys.create_privileged_user('etl', 'the password of etl');

CALL sys.create_privileged_user('etl', 'the password of etl');

CALL sys.create_privileged_user(username => 'analyst', password => 'the password of analyst');

CREATE CATALOG of_etl WITH (
  'type' = 'paimon', 'warehouse' = '${guarded}', 'user' = 'etl', 'password' = 'the password of etl'
);

DESCRIBE of_etl.default.prices;

-- drop_privileged_user: drop a user and the user's privileges.
-- Run it with a new directory: paimon-spark sql -d guarded=/data/guarded -f sql/procedures/drop_privileged_user.sql

CREATE CATALOG everybody WITH ('type' = 'paimon', 'warehouse' = '${guarded}');

USE everybody;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

CALL sys.init_file_based_privilege('the password of root');

CREATE CATALOG administrator WITH (
  'type' = 'paimon', 'warehouse' = '${guarded}', 'user' = 'root', 'password' = 'the password of root'
);

USE administrator;

CALL sys.create_privileged_user('etl', 'the password of etl');

CALL sys.grant_privilege_to_user('etl', 'SELECT');

EXPLAIN CALL sys.drop_privileged_user('etl');

CALL sys.drop_privileged_user('etl');

CALL sys.drop_privileged_user(username => 'etl');

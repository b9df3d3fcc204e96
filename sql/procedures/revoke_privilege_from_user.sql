-- revoke_privilege_from_user: take a privilege on the catalog, a database or a table from a user.
-- Run it with a new directory: paimon-spark sql -d guarded=/data/guarded -f sql/procedures/revoke_privilege_from_user.sql

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

CALL sys.grant_privilege_to_user('etl', 'SELECT', 'default', 'prices');

CALL sys.grant_privilege_to_user('etl', 'INSERT', 'default', 'prices');

CALL sys.grant_privilege_to_user('etl', 'INSERT', 'default');

CALL sys.grant_privilege_to_user('etl', 'ALTER_TABLE');

EXPLAIN CALL sys.revoke_privilege_from_user('etl', 'INSERT', 'default');

-- On the database, and on its table.
CALL sys.revoke_privilege_from_user('etl', 'INSERT', 'default');

CALL sys.revoke_privilege_from_user(
  username => 'etl', privilege => 'SELECT', database => 'default', `table` => 'prices'
);

CALL sys.revoke_privilege_from_user('etl', 'ALTER_TABLE');

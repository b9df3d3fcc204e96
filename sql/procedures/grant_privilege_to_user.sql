-- grant_privilege_to_user: give a user a privilege on the catalog, a database or a table.
-- Run it with a new directory: paimon-spark sql -d guarded=/data/guarded -f sql/procedures/grant_privilege_to_user.sql

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

CALL sys.grant_privilege_to_user('etl', 'CREATE_DATABASE');

CALL sys.grant_privilege_to_user('etl', 'INSERT', 'default');

EXPLAIN CALL sys.grant_privilege_to_user('etl', 'SELECT', 'default', 'prices');

CALL sys.grant_privilege_to_user(username => 'etl', privilege => 'SELECT', database => 'default', `table` => 'prices');

CREATE CATALOG of_etl WITH (
  'type' = 'paimon', 'warehouse' = '${guarded}', 'user' = 'etl', 'password' = 'the password of etl'
);

INSERT INTO of_etl.default.prices VALUES ('milk', 1);

SELECT * FROM of_etl.default.prices ORDER BY item;

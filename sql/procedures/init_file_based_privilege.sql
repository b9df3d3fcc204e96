-- init_file_based_privilege: protect a warehouse by privileges of users.
-- Run it with a new directory: paimon-spark sql -d guarded=/data/guarded -f sql/procedures/init_file_based_privilege.sql

CREATE CATALOG everybody WITH ('type' = 'paimon', 'warehouse' = '${guarded}');

USE everybody;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1');

INSERT INTO prices VALUES ('tea', 3);

EXPLAIN CALL sys.init_file_based_privilege('the password of root');

CALL sys.init_file_based_privilege('the password of root');

-- The catalog without a user is that of anonymous, who sees definitions, but no rows.
DESCRIBE prices;

CREATE CATALOG administrator WITH (
  'type' = 'paimon', 'warehouse' = '${guarded}', 'user' = 'root', 'password' = 'the password of root'
);

SELECT * FROM administrator.default.prices;

-- By name, for another warehouse.
CREATE CATALOG another WITH ('type' = 'paimon', 'warehouse' = '${guarded}-too');

CALL another.sys.init_file_based_privilege(root_password => 'the password of root');

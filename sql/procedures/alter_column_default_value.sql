-- alter_column_default_value: set the default value of a column.
-- Run it: paimon-spark sql -f sql/procedures/alter_column_default_value.sql

USE paimon;

DROP DATABASE IF EXISTS demo_alter_column_default_value CASCADE;

CREATE DATABASE demo_alter_column_default_value;

USE demo_alter_column_default_value;

CREATE TABLE prices (item STRING, price INT, unit STRING);

EXPLAIN CALL sys.alter_column_default_value('prices', 'price', '7');

CALL sys.alter_column_default_value('demo_alter_column_default_value.prices', 'price', '7');

CALL sys.alter_column_default_value(table => 'prices', column => 'unit', default_value => 'kg');

INSERT INTO prices (item) VALUES ('tea');

SELECT * FROM prices;

CALL sys.alter_column_default_value('prices', 'price', 'NULL');

INSERT INTO prices (item) VALUES ('milk');

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_alter_column_default_value CASCADE;

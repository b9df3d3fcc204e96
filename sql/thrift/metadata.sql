-- What BI tools send before the first real query: names of databases, tables and columns, and empty results.
SELECT 1;

SHOW CATALOGS;

USE paimon;

CREATE DATABASE IF NOT EXISTS bi;

USE bi;

CREATE TABLE sales (id BIGINT NOT NULL, region STRING, amount DECIMAL(10, 2), sold DATE)
PARTITIONED BY (region)
TBLPROPERTIES ('primary-key' = 'id,region', 'bucket' = '1');

INSERT INTO sales VALUES (1, 'north', 10.50, DATE '2026-01-01'), (2, 'south', 20.00, DATE '2026-01-02');

SHOW DATABASES LIKE 'bi';

SHOW TABLES IN bi;

DESCRIBE sales;

SHOW PARTITIONS sales;

SHOW TBLPROPERTIES sales ('primary-key');

-- The shape of a table, without its rows.
SELECT * FROM sales LIMIT 0;

-- The shape of a query, as a tool wraps the text that its user typed.
SELECT * FROM (SELECT region, sum(amount) AS amount FROM sales GROUP BY region) AS typed WHERE 1 = 0;

SELECT `typed`.`region` AS `region`, sum(`typed`.`amount`) AS `total`
FROM (SELECT * FROM `paimon`.`bi`.`sales`) `typed`
GROUP BY `typed`.`region` ORDER BY `region` LIMIT 1000;

-- A temporary view, which some tools create.
CREATE TEMPORARY VIEW recent AS SELECT * FROM sales WHERE sold >= DATE '2026-01-02';

SELECT id, region FROM recent ORDER BY id;

DROP TABLE sales;

DROP DATABASE bi;

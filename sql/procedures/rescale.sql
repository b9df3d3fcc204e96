-- rescale: rewrite partitions with another number of buckets.
-- Run it: paimon-spark sql -f sql/procedures/rescale.sql

USE paimon;

DROP DATABASE IF EXISTS demo_rescale CASCADE;

CREATE DATABASE demo_rescale;

USE demo_rescale;

CREATE TABLE orders (id INT, amount INT, day STRING)
PARTITIONED BY (day)
TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '1');

INSERT INTO orders SELECT id, id * 10, concat('2024-05-1', id % 3) FROM range(30);

-- New partitions get two buckets; existing ones keep one, and writes to them are refused until they are rewritten.
ALTER TABLE orders SET TBLPROPERTIES ('bucket' = '2');

INSERT INTO orders VALUES (1, 10, '2024-05-20');

SELECT `partition`, count(DISTINCT bucket) AS buckets, sum(record_count) AS records FROM `orders$files` GROUP BY `partition` ORDER BY `partition`;

-- The plan first.
CALL sys.rescale(table => 'orders', partitions => 'day=2024-05-10', dry_run => true);

CALL sys.rescale(table => 'orders', partitions => 'day=2024-05-10');

CALL sys.rescale(table => 'orders', bucket_num => 2, where => "day < '2024-05-12'");

-- By position: table, bucket_num, partitions.
CALL sys.rescale('demo_rescale.orders', 2, 'day=2024-05-12');

-- Everything has two buckets now: nothing to do.
CALL sys.rescale('orders');

SELECT `partition`, count(DISTINCT bucket) AS buckets, sum(record_count) AS records FROM `orders$files` GROUP BY `partition` ORDER BY `partition`;

INSERT INTO orders VALUES (3, 31, '2024-05-10');

SELECT count(*), sum(amount) FROM orders;

DROP DATABASE demo_rescale CASCADE;

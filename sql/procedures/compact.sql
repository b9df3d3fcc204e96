-- compact: merge the files of a table.
-- Run it: paimon-spark sql -f sql/procedures/compact.sql

USE paimon;

DROP DATABASE IF EXISTS demo_compact CASCADE;

CREATE DATABASE demo_compact;

USE demo_compact;

-- With 'write-only', only the CALL compacts the table.
CREATE TABLE orders (id INT, amount INT, day STRING)
PARTITIONED BY (day)
TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '1', 'write-only' = 'true');

INSERT INTO orders VALUES (1, 10, '2024-05-14'), (2, 20, '2024-05-14'), (1, 5, '2024-05-15');

INSERT INTO orders VALUES (2, 21, '2024-05-14'), (3, 30, '2024-05-14'), (1, 6, '2024-05-15');

INSERT INTO orders VALUES (2, 22, '2024-05-14'), (1, 7, '2024-05-15'), (1, 1, '2024-05-16');

-- The plan first: which files would be merged. Nothing changes.
EXPLAIN CALL sys.compact('orders');

CALL sys.compact(table => 'orders', partitions => 'day=2024-05-14', dry_run => true);

-- One partition, with an option for this CALL only.
CALL sys.compact(table => 'orders', partitions => 'day=2024-05-14', options => 'target-file-size=64 mb');

-- What the automatic compaction would pick now, in partitions that meet a condition: three runs are too few for it.
CALL sys.compact(table => 'orders', where => "day > '2024-05-14'", compact_strategy => 'minor');

-- Partitions that were written in the last hour are left alone: nothing to do.
CALL sys.compact(table => 'orders', partition_idle_time => '1 h');

-- Everything that is left, by position: table, partitions, order_strategy, order_by, options.
CALL sys.compact('demo_compact.orders', '', 'none', '', '');

-- Again: the table is compact already, and no snapshot is written.
CALL sys.compact(table => 'paimon.demo_compact.orders', order_strategy => 'none', order_by => '', compact_strategy => 'full');

SELECT * FROM orders ORDER BY day, id;

-- A table without primary key can be sorted, so that queries over its columns skip most files.
CREATE TABLE clicks (x INT, y INT, day STRING) PARTITIONED BY (day);

INSERT INTO clicks SELECT id % 32, id DIV 32, '2024-05-14' FROM range(1024);

EXPLAIN CALL sys.compact(table => 'clicks', order_strategy => 'order', order_by => 'x');

CALL sys.compact('clicks', 'day=2024-05-14', 'zorder', 'x,y', 'sink.parallelism=4');

SELECT record_count, min_value_stats, max_value_stats FROM `clicks$files` ORDER BY max_value_stats;

SELECT `partition`, bucket, level, record_count FROM `orders$files` ORDER BY `partition`, bucket;

-- What a job would compact first: CALL … streaming => true starts one, which SHOW JOBS lists and STOP JOB ends.
CALL sys.compact(table => 'orders', streaming => true, dry_run => true);

DROP DATABASE demo_compact CASCADE;

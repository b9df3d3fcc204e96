-- compact_chain_table: merge a partition of a chain table into its snapshot branch.
-- Run it: paimon-spark sql -f sql/procedures/compact_chain_table.sql

USE paimon;

DROP DATABASE IF EXISTS demo_compact_chain_table CASCADE;

CREATE DATABASE demo_compact_chain_table;

USE demo_compact_chain_table;

CREATE TABLE orders (id INT, version BIGINT, amount INT) PARTITIONED BY (dt STRING)
TBLPROPERTIES (
  'chain-table.enabled' = 'true', 'primary-key' = 'dt,id', 'sequence.field' = 'version', 'bucket' = '1',
  'partition.timestamp-pattern' = '$dt', 'partition.timestamp-formatter' = 'yyyyMMdd'
);

CALL sys.create_branch('orders', 'snapshot');

CALL sys.create_branch('orders', 'delta');

ALTER TABLE orders SET TBLPROPERTIES ('scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta');

ALTER TABLE `orders$branch_snapshot` SET TBLPROPERTIES ('scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta');

ALTER TABLE `orders$branch_delta` SET TBLPROPERTIES ('scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta');

-- All rows of the 10th, and what changed on the 11th and 12th.
INSERT OVERWRITE `orders$branch_snapshot` PARTITION (dt = '20250810') VALUES (1, 1, 10), (2, 1, 20);

INSERT INTO `orders$branch_delta` VALUES (2, 2, 25, '20250811'), (3, 1, 30, '20250811'), (1, 2, 15, '20250812');

SELECT * FROM orders WHERE dt = '20250812' ORDER BY id;

-- The plan first.
EXPLAIN CALL sys.compact_chain_table(table => 'orders', partition => 'dt=20250812');

CALL sys.compact_chain_table(table => 'orders', partition => 'dt="20250812"');

-- The snapshot branch has the partition: nothing changes.
CALL sys.compact_chain_table('orders', 'dt=20250812');

INSERT INTO `orders$branch_delta` VALUES (4, 1, 40, '20250812');

CALL sys.compact_chain_table(table => 'orders', partition => 'dt=20250812', overwrite => true);

SELECT * FROM `orders$branch_snapshot` WHERE dt = '20250812' ORDER BY id;

SELECT * FROM orders ORDER BY dt, id;

DROP DATABASE demo_compact_chain_table CASCADE;

-- drop_partition: drop partitions.
-- Run it: paimon-spark sql -f sql/procedures/drop_partition.sql

USE paimon;

DROP DATABASE IF EXISTS demo_drop_partition CASCADE;

CREATE DATABASE demo_drop_partition;

USE demo_drop_partition;

CREATE TABLE visits (page STRING, dt STRING, hh INT) PARTITIONED BY (dt, hh);

INSERT INTO visits VALUES
  ('a', '2024-05-14', 1), ('b', '2024-05-14', 2), ('c', '2024-05-15', 1), ('d', '2024-05-16', 1), ('e', '2024-05-17', 1);

-- What would be dropped. Nothing changes.
EXPLAIN CALL sys.drop_partition('visits', 'dt=2024-05-14', 'dt=2024-05-15,hh=1');

CALL sys.drop_partition('demo_drop_partition.visits', 'dt=2024-05-14', 'dt=2024-05-15,hh=1');

SELECT * FROM visits ORDER BY page;

CALL sys.drop_partition(table => 'visits', partitions => 'dt=2024-05-16,hh=1;dt=2024-05-18');

SELECT * FROM visits ORDER BY page;

DROP DATABASE demo_drop_partition CASCADE;

-- mark_partition_done: mark partitions as complete.
-- Run it: paimon-spark sql -f sql/procedures/mark_partition_done.sql

USE paimon;

DROP DATABASE IF EXISTS demo_mark_partition_done CASCADE;

CREATE DATABASE demo_mark_partition_done;

USE demo_mark_partition_done;

CREATE TABLE visits (page STRING, day STRING, hour INT) PARTITIONED BY (day, hour);

INSERT INTO visits VALUES ('home', '2024-05-14', 1), ('shop', '2024-05-14', 2), ('home', '2024-05-15', 1);

CALL sys.mark_partition_done(table => 'visits', partitions => 'day=2024-05-14,hour=1;day=2024-05-15');

-- By position.
CALL sys.mark_partition_done('visits', 'day=2024-05-14');

DROP DATABASE demo_mark_partition_done CASCADE;

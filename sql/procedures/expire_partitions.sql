-- expire_partitions: drop partitions that are too old.
-- Run it: paimon-spark sql -f sql/procedures/expire_partitions.sql

USE paimon;

DROP DATABASE IF EXISTS demo_expire_partitions CASCADE;

CREATE DATABASE demo_expire_partitions;

USE demo_expire_partitions;

CREATE TABLE visits (page STRING, year STRING, day STRING) PARTITIONED BY (year, day);

INSERT INTO visits VALUES ('home', '2020', '0101'), ('shop', '2020', '0601'), ('home', '2021', '0101'), ('home', '2999', '0101');

CALL sys.expire_partitions(table => 'visits', expiration_time => '30 d', timestamp_formatter => 'yyyyMMdd',
  timestamp_pattern => '$year$day', expire_strategy => 'values-time', max_expires => 2,
  options => 'partition.expiration-batch-size=1');

SELECT year, day FROM visits ORDER BY year, day;

-- By position; nothing was changed that long ago.
CALL sys.expire_partitions('visits', '30 d', 'yyyyMMdd', '$year$day', 'update-time');

DROP DATABASE demo_expire_partitions CASCADE;

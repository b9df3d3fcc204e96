-- stop: ends a streaming job that writes to a table, also one of another program.
-- Run it: paimon-spark sql -f sql/procedures/stop.sql

USE paimon;

DROP DATABASE IF EXISTS demo_stop CASCADE;

CREATE DATABASE demo_stop;

USE demo_stop;

CREATE TABLE events (id INT, what STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');

CALL sys.compact(table => 'events', streaming => true);

-- By position. Any program may call it, also `paimon-spark stop --path … --query compact_demo_stop.events`.
CALL sys.stop('demo_stop.events', 'compact_demo_stop.events');

CALL sys.compact(table => 'events', streaming => true);

-- What would be written.
CALL sys.stop(table => 'events', query => 'compact_demo_stop.events', dry_run => true);

-- By name.
CALL sys.stop(table => 'events', query => 'compact_demo_stop.events', timeout => '2 min');

DROP DATABASE demo_stop CASCADE;

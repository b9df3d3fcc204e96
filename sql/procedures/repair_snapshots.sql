-- repair_snapshots: rewrite snapshots and tags that Paimon fails to read because of their operation.
-- Run it: paimon-spark sql -f sql/procedures/repair_snapshots.sql

USE paimon;

DROP DATABASE IF EXISTS demo_repair_snapshots CASCADE;

CREATE DATABASE demo_repair_snapshots;

USE demo_repair_snapshots;

CREATE TABLE visits (day STRING, page STRING) PARTITIONED BY (day);

INSERT INTO visits VALUES ('monday', 'home'), ('tuesday', 'help');

ALTER TABLE visits DROP PARTITION (day = 'monday');

-- Paimon can read the snapshots of this release.
SELECT snapshot_id, commit_kind, operation FROM `visits$snapshots` ORDER BY snapshot_id;

-- Which files would be rewritten? None of a table like this one.
EXPLAIN CALL sys.repair_snapshots('visits');

CALL sys.repair_snapshots(table => 'demo_repair_snapshots.visits');

DROP DATABASE demo_repair_snapshots CASCADE;

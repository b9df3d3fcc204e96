-- compact_manifest: merge small manifests.
-- Run it: paimon-spark sql -f sql/procedures/compact_manifest.sql

USE paimon;

DROP DATABASE IF EXISTS demo_compact_manifest CASCADE;

CREATE DATABASE demo_compact_manifest;

USE demo_compact_manifest;

CREATE TABLE prices (item STRING, price INT) TBLPROPERTIES ('primary-key' = 'item', 'bucket' = '1', 'write-only' = 'true');

INSERT INTO prices VALUES ('tea', 3);

INSERT INTO prices VALUES ('tea', 4);

INSERT INTO prices VALUES ('milk', 1);

-- What would be merged. Nothing changes.
EXPLAIN CALL sys.compact_manifest('prices');

CALL sys.compact_manifest(table => 'prices', dry_run => true);

CALL sys.compact_manifest(table => 'prices', options => 'manifest.target-file-size=1 mb');

SELECT snapshot_id, commit_kind, total_record_count FROM `prices$snapshots` ORDER BY snapshot_id;

SELECT num_added_files, num_deleted_files FROM `prices$manifests`;

-- Again: nothing to do.
CALL sys.compact_manifest('demo_compact_manifest.prices');

SELECT * FROM prices ORDER BY item;

DROP DATABASE demo_compact_manifest CASCADE;

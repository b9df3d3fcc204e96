-- What a table wants every night: few and large files, and no more history than is needed.
--   paimon-spark sql --warehouse /data/warehouse -d database=sales -d table=orders -d day=2026-01-31 \
--     -f sql/maintenance/nightly.sql
USE paimon;

-- The table as it is when the night begins, kept for a week under the name of the day.
CALL sys.create_tag(table => '${database}.${table}', tag => 'night-${day}', time_retained => '7 d');

-- Merge what the day wrote. `minor` does what pays off; now and then `full` rewrites everything.
CALL sys.compact(table => '${database}.${table}', compact_strategy => 'minor');

-- Which files would go, and what keeps the others? The same statement without EXPLAIN deletes them.
EXPLAIN CALL sys.expire_snapshots(table => '${database}.${table}', retain_max => 20, retain_min => 5);

CALL sys.expire_snapshots(table => '${database}.${table}', retain_max => 20, retain_min => 5);

-- How the table stands now.
SELECT snapshot_id, commit_kind, total_record_count
FROM `${database}`.`${table}$snapshots` ORDER BY snapshot_id DESC LIMIT 5;

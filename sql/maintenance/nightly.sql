-- Nightly maintenance of one table: a tag, a compaction and the expiry of snapshots.
-- For all tables of a database, CALL sys.maintain('sales.*', '10m') fixes what sys.doctor finds.
--   paimon-spark sql --warehouse /data/warehouse -d database=sales -d table=orders -d day=2026-01-31 \
--     -f sql/maintenance/nightly.sql
USE paimon;

-- A tag of the current state, kept for a week.
CALL sys.create_tag(table => '${database}.${table}', tag => 'night-${day}', time_retained => '7 d');

-- Merge the files of the day. `minor` does what the automatic compaction would do; `full` rewrites everything.
CALL sys.compact(table => '${database}.${table}', compact_strategy => 'minor');

-- The files that would be removed, and what keeps the others. The same statement without EXPLAIN removes them.
EXPLAIN CALL sys.expire_snapshots(table => '${database}.${table}', retain_max => 20, retain_min => 5);

CALL sys.expire_snapshots(table => '${database}.${table}', retain_max => 20, retain_min => 5);

-- The newest snapshots afterwards.
SELECT snapshot_id, commit_kind, total_record_count
FROM `${database}`.`${table}$snapshots` ORDER BY snapshot_id DESC LIMIT 5;

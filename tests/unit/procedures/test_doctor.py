"""doctor: each finding on a table with that defect, and gone after the statement that fixes it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.engine.analyze import commit_statistics, plan_analyze
from paimon_spark.engine.health.doctor import diagnose
from paimon_spark.engine.health.examined import Limits
from paimon_spark.engine.health.findings import Code, Finding
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, NotFoundError, UnsupportedError
from paimon_spark.spec.refs import Consumer
from paimon_spark.spec.table_statistics import ColumnStatistics
from paimon_spark.testing.invariants import leaked
from tests.unit.procedures.calling import Lake
from tests.unit.procedures.warehouse import Warehouse

COLUMNS = {"p": "INT", "k": "INT", "v": "INT"}
KEEP = {"write_only": "true", "snapshot__num_retained__min": "1000", "snapshot__num_retained__max": "1000"}


def keyed(**options: str) -> Lake:
    return Lake(COLUMNS, primary_key=["p", "k"], partition=["p"], **{**KEEP, "bucket": "1", **options})


def found(lake: Lake, code: str, **limits: int) -> list[Finding]:
    clear_cache()
    done = diagnose(lake.table, LocalRunner(), lake.now, limits=Limits(**limits))
    return [f for f in done.findings if f.code == code]


def one(lake: Lake, code: str, **limits: int) -> Finding:
    (finding,) = found(lake, code, **limits)
    return finding


def fix(lake: Lake, finding: Finding) -> dict[str, Any]:
    assert finding.remedy is not None
    return lake.call(finding.remedy)[0]


def files(lake: Lake) -> int:
    return len(live_in_partitions(ManifestStore(lake.table), lake.table.snapshots.latest(), None))


def stored(lake: Lake) -> int:
    return sum(len(data) for data in lake.state().values())


def test_a_sound_table_has_no_findings() -> None:
    lake = keyed()
    assert lake.call("doctor('t')") == []
    lake.insert((1, 1, 1))
    assert lake.call("doctor('db.*')") == []


@pytest.mark.parametrize("code", [Code.SMALL_FILES, Code.LEVEL_0_FILES])
def test_files_of_a_primary_key_table(code: str) -> None:
    lake = keyed()
    for i in range(7):
        lake.insert((1, i, i), (2, i, i))
    finding, before = one(lake, code), files(lake)
    assert finding.remedy == "CALL sys.compact(table => 'db.t', partitions => 'p=1;p=2')"
    fix(lake, finding)
    assert (files(lake), finding.gain_files) == (before - finding.gain_files, 12)
    assert found(lake, code) == []


def test_small_files_of_an_append_table() -> None:
    lake = Lake(COLUMNS, partition=["p"], **KEEP)
    for i in range(6):
        lake.insert((1, i, i))
    lake.insert((2, 0, 0))
    finding = one(lake, Code.SMALL_FILES)
    assert finding.found.startswith("6 of 7 files are smaller than 179.2 MiB")
    assert fix(lake, finding)["files_in"] == 6
    assert found(lake, Code.SMALL_FILES) == []


def test_level_0_that_readers_do_not_see() -> None:
    lake = keyed(deletion_vectors__enabled="true")
    lake.insert((1, 1, 1))
    finding = one(lake, Code.LEVEL_0_FILES)
    assert "do not see them" in finding.found
    fix(lake, finding)
    assert found(lake, Code.LEVEL_0_FILES) == []


def test_many_deleted_rows() -> None:
    lake = keyed(deletion_vectors__enabled="true", write_only="false", compaction__delete_ratio_threshold="0.1")
    lake.insert(*((1, i, i) for i in range(10)))
    lake.insert(*((1, i, 7) for i in range(4)))
    finding = one(lake, Code.DELETED_ROWS)
    assert "4 of 14 rows (28 %)" in finding.found
    fix(lake, finding)
    assert found(lake, Code.DELETED_ROWS) == []


def test_skew_and_sizes_of_buckets() -> None:
    lake = keyed(bucket="4")
    lake.insert(*((1, i * 4 * 7919, i) for i in range(40)))
    assert found(lake, Code.BUCKET_SKEW) == []
    skewed = Lake({"k": "INT", "v": "INT"}, bucket="4", bucket_key="k", **KEEP)
    skewed.insert(*((7, i) for i in range(50)), (1, 1))
    finding = one(skewed, Code.BUCKET_SKEW, skew_rows=10, skew=3)
    assert "has 5" in finding.found
    assert "3.9 times the mean of its 4 buckets" in finding.found
    assert "bucket_num => 8" in str(finding.remedy)
    assert "of the largest partition have " in one(skewed, Code.LARGE_BUCKETS, bucket_bytes=1).found
    small = one(lake, Code.SMALL_BUCKETS, small_bucket_files=2)
    alter, rescale = str(small.remedy).split("; ")
    assert alter == "ALTER TABLE db.t SET TBLPROPERTIES ('bucket' = '1')"
    before = files(lake)
    lake.call(rescale)
    assert files(lake) == before - small.gain_files
    assert "is 1 in 1 partition, but 'bucket' is 4" in one(lake, Code.OTHER_BUCKET_COUNT).found


def test_postponed_rows() -> None:
    lake = keyed(bucket="-2", postpone__batch_write_fixed_bucket="false")
    lake.insert((1, 1, 1), (1, 2, 2))
    finding = one(lake, Code.POSTPONED_ROWS)
    assert finding.found.startswith("2 rows in ")


def test_manifests() -> None:
    lake = keyed(manifest__merge_min_count="5")
    for i in range(5):
        lake.insert((1, i, i))
    lake.table = lake.table.with_options({"manifest.merge-min-count": "4"})
    finding = one(lake, Code.SMALL_MANIFESTS)
    assert fix(lake, finding)["files_in"] - 1 == finding.gain_files
    assert found(lake, Code.SMALL_MANIFESTS) == []


@pytest.fixture
def pinned() -> Lake:
    """Two tags and a branch on snapshots whose files the table has replaced, and which have expired."""
    lake = keyed()
    for i in range(4):
        lake.insert((1, i, i))
        lake.call(f"create_tag('t', 'tag{i}')")
    lake.call("create_branch('t', 'dev', 'tag1')")
    lake.call("delete_tag('t', 'tag0')")
    lake.call("delete_tag('t', 'tag1')")
    lake.call("compact('t')")
    lake.call("expire_snapshots(table => 't', retain_max => 1)")
    return lake


def test_what_tags_hold(pinned: Lake) -> None:
    for finding in sorted(found(pinned, Code.TAG_HOLDS_FILES), key=lambda f: str(f.remedy), reverse=True):
        if finding.remedy is None:
            assert "only the 2 tags together need" in finding.found
            continue
        (now,) = (f for f in found(pinned, Code.TAG_HOLDS_FILES) if f.remedy == finding.remedy)
        before = stored(pinned)
        gone = fix(pinned, now)
        assert (gone["files_in"], before - stored(pinned)) == (now.gain_files + 1, gone["bytes_in"])
        assert 0 < now.gain_bytes <= gone["bytes_in"]
    assert found(pinned, Code.TAG_HOLDS_FILES) == []


def test_what_a_branch_holds(pinned: Lake) -> None:
    pinned.call("delete_tag('t', 'tag2,tag3')")
    finding, before, state = one(pinned, Code.BRANCH_HOLDS_FILES), leaked(pinned.table), pinned.state()
    assert finding.remedy == "CALL sys.delete_branch(table => 'db.t', branch => 'dev')"
    fix(pinned, finding)
    freed = leaked(pinned.table) - before
    assert (len(freed), sum(len(state[p]) for p in freed)) == (finding.gain_files, finding.gain_bytes)
    assert found(pinned, Code.BRANCH_HOLDS_FILES) == []


def test_snapshots_that_may_expire() -> None:
    lake = keyed(snapshot__num_retained__min="1", snapshot__num_retained__max="2", snapshot__expire__limit="1")
    for i in range(4):
        lake.insert((1, i, i))
    lake.call("compact('t')")
    finding = one(lake, Code.EXPIRED_SNAPSHOTS)
    assert finding.remedy == "CALL sys.expire_snapshots(table => 'db.t', max_deletes => 4)"
    before = set(lake.state())
    fix(lake, finding)
    after = set(lake.state())
    assert len([p for p in before - after if "/snapshot/" not in p]) == finding.gain_files
    assert found(lake, Code.EXPIRED_SNAPSHOTS) == []


def test_consumers() -> None:
    lake = keyed(snapshot__num_retained__min="1", snapshot__num_retained__max="1")
    for i in range(3):
        lake.insert((1, i, i))
    lake.call("compact('t')")
    lake.call("reset_consumer('t', 'slow', 2)")
    assert "has not read 3 snapshots" in one(lake, Code.CONSUMER_BEHIND).found
    assert "keeps 2 snapshots from expiry" in one(lake, Code.CONSUMER_HOLDS_FILES).found
    fix(lake, one(lake, Code.CONSUMER_HOLDS_FILES))
    assert found(lake, Code.CONSUMER_HOLDS_FILES) == []
    lake.call("reset_consumer('t', 'slow', 1)")
    lake.call("reset_consumer('t', 'other', 4)")
    lake.table.file_io.delete(lake.table.paths.snapshot(1))
    lake.table.file_io.delete(lake.table.paths.earliest_hint)
    assert fix(lake, one(lake, Code.CONSUMER_LOST))
    assert found(lake, Code.CONSUMER_LOST) == []


def test_tags_and_partitions_past_their_time() -> None:
    lake = Lake({"day": "STRING", "v": "INT"}, partition=["day"], **KEEP, partition__expiration_time="1 d")
    lake.insert(("2020-01-01", 1))
    lake.call("create_tag(table => 't', tag => 'short', time_retained => '1 h')")
    lake.now += 7_200_000
    for code in (Code.EXPIRED_TAGS, Code.EXPIRED_PARTITIONS):
        fix(lake, one(lake, code))
        assert found(lake, code) == []


def test_missing_files_and_orphans() -> None:
    lake = keyed()
    for i in range(3):
        lake.insert((1, i, i))
    lake.call("rollback_to(table => 't', snapshot_id => 2, trash => false)")
    finding, garbage = one(lake, Code.ORPHAN_FILES), leaked(lake.table)
    assert (finding.gain_files, finding.gain_bytes) == (len(garbage), sum(len(lake.state()[p]) for p in garbage))
    fix(lake, finding)
    assert found(lake, Code.ORPHAN_FILES) == []
    (gone, _) = (p for p in lake.state() if p.endswith(".parquet") and "/.trash/" not in p)
    lake.table.file_io.delete(gone)
    missing = one(lake, Code.MISSING_FILES)
    assert gone in missing.found
    assert "1 row " in missing.found
    assert "MISSING_FILES" not in {f["finding"] for f in lake.call("doctor(table => 't', list_files => false)")}
    fix(lake, missing)
    assert found(lake, Code.MISSING_FILES) == []


@pytest.mark.parametrize("size", [0, 100])
def test_a_truncated_data_file_is_found(size: int) -> None:
    lake = keyed()
    lake.insert((1, 1, 1))
    (path,) = (p for p in lake.state() if p.endswith(".parquet"))
    data = lake.table.file_io.read(path)
    lake.table.file_io.write(path, data[:size])
    damaged = one(lake, Code.UNREADABLE)
    assert damaged.found == f"{path} is missing or damaged (it has {size} bytes, the metadata says {len(data)})"
    assert "verify" in str(damaged.remedy)
    lake.table.file_io.write(path, data)
    assert found(lake, Code.UNREADABLE) == []


def test_a_missing_schema_of_a_snapshot_is_found() -> None:
    lake = keyed()
    lake.insert((1, 1, 1))
    lake.call("alter_column_default_value('t', 'v', '7')")
    lake.table.file_io.delete(lake.table.paths.schema(0))
    assert "schema-0 is missing; there are: 1. Restore the file" in one(lake, Code.UNREADABLE).found


def test_young_files_are_no_orphans() -> None:
    lake = keyed()
    lake.insert((1, 1, 1))
    lake.table.file_io.write(f"{lake.table.paths.manifest_dir}/manifest-x", b"x")
    lake.now = lake.table.file_io.status(f"{lake.table.paths.manifest_dir}/manifest-x").mtime_ms
    assert found(lake, Code.ORPHAN_FILES) == []


def test_a_missing_manifest_is_a_finding() -> None:
    lake = keyed()
    lake.insert((1, 1, 1))
    lake.insert((1, 2, 2))
    latest = lake.table.snapshots.latest()
    assert latest is not None
    meta = ManifestStore(lake.table).data_manifests(latest)[1]
    lake.table.file_io.delete(lake.table.paths.manifest(meta.file_name))
    (finding,) = found(lake, Code.UNREADABLE)
    assert meta.file_name in finding.found
    assert finding.found.startswith("snapshot 2 cannot be read")
    fix(lake, finding)
    assert lake.table.snapshots.latest_id() == 3


def test_a_manifest_of_an_old_snapshot_is_missing() -> None:
    lake = keyed(manifest__merge_min_count="2", manifest__full_compaction_threshold_size="1 b")
    for i in range(3):
        lake.insert((1, i, i))
    lake.call("compact_manifest('t')")
    store, snapshots = ManifestStore(lake.table), lake.table.snapshots
    latest = snapshots.latest()
    assert latest is not None
    kept = {m.file_name for m in store.data_manifests(latest)}
    (gone, *_) = (m.file_name for m in store.data_manifests(snapshots.get(1)) if m.file_name not in kept)
    lake.table.file_io.delete(lake.table.paths.manifest(gone))
    assert one(lake, Code.UNREADABLE).remedy is None


def test_consumers_of_long_lived_changelogs() -> None:
    lake = keyed(changelog_producer="input", changelog__num_retained__max="2000", consumer__changelog_only="true")
    for i in range(4):
        lake.insert((1, i, i))
    lake.call("reset_consumer('t', 'c', 2)")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    assert lake.table.snapshots.ids() == [4]
    assert found(lake, Code.CONSUMER_LOST) == []
    holding = one(lake, Code.CHANGELOGS_HOLD_FILES)
    assert ("1 consumer still to read them: c" in holding.found, holding.remedy) == (True, None)
    lake.call("reset_consumer('t', 'c')")
    assert "expire_changelogs" in str(one(lake, Code.CHANGELOGS_HOLD_FILES).remedy)


def with_changelogs() -> Lake:
    """A table with the long-lived changelogs 2 to 4, and snapshot 5."""
    lake = keyed(changelog_producer="input", changelog__num_retained__max="2000", consumer__changelog_only="true")
    for i in range(5):
        lake.insert((1, i, i))
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    lake.table.file_io.delete(lake.table.paths.changelog(1))
    return lake


def test_a_lost_consumer_continues_with_a_changelog() -> None:
    lake = with_changelogs()
    RefStore.of(lake.table).write_consumer("c", Consumer(1))
    assert "expire_changelogs" in str(one(lake, Code.CHANGELOGS_HOLD_FILES).remedy)  # it cannot read them
    lost = one(lake, Code.CONSUMER_LOST)
    assert "before 2 have expired" in lost.found
    fix(lake, lost)
    assert RefStore.of(lake.table).consumers() == {"c": 2}
    assert found(lake, Code.CONSUMER_LOST) == []
    assert "1 consumer still to read them" in one(lake, Code.CHANGELOGS_HOLD_FILES).found


def test_a_consumer_of_changelogs_is_behind() -> None:
    lake = with_changelogs()
    lake.call("reset_consumer('t', 'c', 3)")
    behind = one(lake, Code.CONSUMER_BEHIND)
    assert "has not read 3 snapshots; the oldest, 3," in behind.found
    fix(lake, behind)
    assert RefStore.of(lake.table).consumers() == {}
    with pytest.raises(NotFoundError, match="Snapshot 1 does not exist"):
        lake.call("reset_consumer('t', 'c', 1)")


def test_an_unfinished_rollback_hides_snapshots() -> None:
    lake = keyed()
    for i in range(7):
        lake.insert((1, i, i))
    assert found(lake, Code.SMALL_FILES)
    lake.table.snapshots.begin_rollback(2)
    clear_cache()
    examined = diagnose(lake.table, LocalRunner(), lake.now).examined
    assert (examined.latest.id if examined and examined.latest else None) == 2
    assert found(lake, Code.SMALL_FILES) == []


def test_when_bytes_are_freed(pinned: Lake) -> None:
    assert "remove_orphan_files frees them" in one(pinned, Code.BRANCH_HOLDS_FILES).found
    pinned.table.file_io.write(f"{pinned.table.paths.manifest_dir}/manifest-x", b"x")
    assert "they go to the trash" in one(pinned, Code.ORPHAN_FILES).found
    pinned.table = pinned.table.with_options({"trash.retention": "0"})
    assert "trash" not in one(pinned, Code.ORPHAN_FILES).found


def test_options_of_other_programs_are_kept() -> None:
    assert one(Lake({"k": "INT"}, **{"dbt.model": "orders"}), Code.OPTION_UNKNOWN).remedy is None
    assert one(Lake({"k": "INT"}, **{"merge-engin": "x"}), Code.OPTION_UNKNOWN).remedy is not None
    assert found(Lake({"k": "INT"}, owner="me", comment="of me"), Code.OPTION_UNKNOWN) == []
    assert one(Lake({"k": "INT"}, **{"lookup.cache-rows": "5"}), Code.OPTION_WITHOUT_EFFECT).remedy is None


def test_tables_of_other_programs() -> None:
    lake = Lake({"k": "INT"}, type="format-table", file__format="csv")
    with pytest.raises(UnsupportedError, match="'type' is 'format-table'"):
        lake.call("doctor('t')")
    assert lake.call("doctor('db.*')") == []


def test_statements_quote_names(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create("db.`a-b'c`", **{"dynamic-bucket.target-row-num": "5"})
    for i in range(6):
        warehouse.insert("db.`a-b'c`", (i, "x"))
    rows = warehouse.call("doctor('db.*')")
    remedies = {r["finding"]: r["remedy"] for r in rows}
    unset = "ALTER TABLE db.`a-b'c` UNSET TBLPROPERTIES ('dynamic-bucket.target-row-num')"
    assert remedies["OPTION_WITHOUT_EFFECT"] == unset
    assert warehouse.call(remedies["SMALL_FILES"])[0]["status"] == "done"


def test_stale_statistics() -> None:
    lake = keyed()
    lake.insert((1, 1, 1), (1, 2, 2))
    snapshot = plan_analyze(lake.table, ["k"]).snapshot
    assert snapshot is not None
    commit_statistics(lake.table, snapshot, 2, {"k": ColumnStatistics(col_id=1, min="1", max="2")})
    assert found(lake, Code.STALE_STATISTICS) == []
    lake.insert((1, 3, 3))
    finding = one(lake, Code.STALE_STATISTICS)
    assert "1 row changed since, 50 % of 2" in finding.found
    assert finding.remedy == "ANALYZE TABLE db.t COMPUTE STATISTICS FOR ALL COLUMNS"


def test_a_commit_time_in_the_future() -> None:
    lake = keyed()
    lake.insert((1, 1, 1))
    lake.now = time.time_ns() // 1_000_000
    assert found(lake, Code.FUTURE_SNAPSHOT) == []
    lake.now -= 26 * 3_600_000
    finding = one(lake, Code.FUTURE_SNAPSHOT)
    assert finding.found.startswith("snapshot 1 of commit user ")
    assert "UTC, 1 day, " in finding.found


@pytest.mark.parametrize(
    ("key", "value", "code", "part"),
    [
        ("merge-engin", "x", Code.OPTION_UNKNOWN, "Did you mean 'merge-engine'?"),
        ("team", "sales", Code.OPTION_UNKNOWN, "none of Paimon's options"),
        ("target-file-size", "big", Code.OPTION_INVALID, "'big'"),
        ("bucket-key", "v", Code.OPTION_WITHOUT_EFFECT, "has no buckets"),
        ("dynamic-bucket.target-row-num", "5", Code.OPTION_WITHOUT_EFFECT, "no dynamic buckets"),
        ("partition.expiration-time", "1 d", Code.OPTION_WITHOUT_EFFECT, "not partitioned"),
        ("merge-engine", "first-row", Code.OPTION_WITHOUT_EFFECT, "needs a primary key"),
        ("lookup.cache-rows", "5", Code.OPTION_WITHOUT_EFFECT, "no effect on Spark"),
        ("metadata.iceberg.storage", "hadoop-catalog", Code.OPTION_UNSUPPORTED, "not implemented"),
        ("snapshot.num-retained.max", "3", Code.OPTION_CONTRADICTION, "'snapshot.num-retained.min' = 10"),
        ("parquet.block.size", "1 kb", Code.ROW_GROUP_SIZE, "small"),
        ("file.block-size", "2 gb", Code.ROW_GROUP_SIZE, "larger than data files"),
        ("snapshot.time-retained", "1 s", Code.SHORT_RETENTION, "files deleted"),
    ],
)
def test_options(key: str, value: str, code: str, part: str) -> None:
    lake = Lake({"k": "INT", "v": "INT"}, **{key: value})
    if code == Code.SHORT_RETENTION:
        lake.insert((1, 1))
    finding = one(lake, code)
    assert part in finding.found
    assert finding.remedy is None or f"'{key}'" in finding.remedy


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', 'fatal'", ArgumentError, "the choices are error, warning, info"),
        ("'db.nope'", NotFoundError, "nope"),
        ("severity => 'info'", ArgumentError, "lacks the required argument table"),
    ],
)
def test_wrong_arguments(arguments: str, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        keyed().call(f"doctor({arguments})")

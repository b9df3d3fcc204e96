"""compact_manifest, remove_unexisting_files, remove_unexisting_manifests and repair_earliest_snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.errors import ArgumentError, CorruptTableError, NotFoundError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="2", write_only="true")
    for i in range(4):
        lake.insert((i, 10 * i))
    return lake


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = read_arrow(lake.table).to_pylist()
    return sorted((r["k"], r["v"]) for r in found)


def manifests(lake: Lake) -> list[str]:
    latest = lake.table.snapshots.get(lake.table.snapshots.latest_id() or 0)
    return [m.file_name for m in ManifestStore(lake.table).data_manifests(latest)]


def data_files(lake: Lake) -> list[str]:
    live = live_in_partitions(ManifestStore(lake.table), lake.table.snapshots.latest(), None)
    return [lake.table.paths.data_file(e.partition, e.bucket, e.file) for e in live]


def test_manifests_are_merged(lake: Lake) -> None:
    before, names = lake.state(), manifests(lake)
    plan = lake.call("EXPLAIN CALL sys.compact_manifest('t')")
    assert [r["path"].rsplit("/", 1)[-1] for r in plan] == names
    row = lake.one("compact_manifest('t', '', true)")
    assert (row["status"], row["manifests"].split(" (")[0]) == ("dry run", "4 manifest files")
    assert lake.state() == before
    row = lake.one("compact_manifest('t')")
    assert (row["result"], row["status"], row["files_in"], row["files_out"]) == (True, "done", 4, 1)
    latest = lake.table.snapshots.get(5)
    assert (latest.commit_kind, latest.total_record_count, latest.delta_record_count) == (CommitKind.COMPACT, 4, 0)
    assert len(manifests(lake)) == 1
    assert rows(lake) == [(i, 10 * i) for i in range(4)]
    assert lake.one("compact_manifest('t')")["status"] == "nothing to do"
    lake.insert((9, 9))
    assert rows(lake)[-1] == (9, 9)


def test_entries_of_removed_files_go(lake: Lake) -> None:
    lake.call("compact('t')")
    assert lake.one("compact_manifest('t')")["status"] == "done"
    store, latest = ManifestStore(lake.table), lake.table.snapshots.latest()
    assert latest is not None
    entries = [e for m in store.data_manifests(latest) for e in store.read(m)]
    assert len(entries) == len(data_files(lake)) == 2
    assert rows(lake) == [(i, 10 * i) for i in range(4)]


def test_large_manifests_stay(lake: Lake) -> None:
    row = lake.one("compact_manifest('t', 'manifest.target-file-size=1 b')")
    assert (row["status"], row["snapshot_after"]) == ("nothing to do", 4)
    assert Lake({"k": "INT"}).one("compact_manifest('t')")["manifests"] == "no snapshot exists"


def test_missing_data_files_are_removed(lake: Lake) -> None:
    lost = sorted(data_files(lake))[:2]
    for path in lost:
        lake.table.file_io.delete(path)
    before = lake.state()
    dry = lake.call("remove_unexisting_files('t', true)")
    assert ([r["fileName"] for r in dry], dry[0]["status"]) == (lost, "dry run")
    assert [r["path"] for r in lake.call("EXPLAIN CALL sys.remove_unexisting_files('t')")] == lost
    assert lake.state() == before
    done = lake.call("remove_unexisting_files('t', false, 1)")
    assert ([r["fileName"] for r in done], done[0]["status"]) == (lost, "done")
    assert len(rows(lake)) == 2
    assert lake.table.snapshots.get(5).total_record_count == 2
    row = lake.one("remove_unexisting_files('t')")
    assert (row["fileName"], row["status"]) == (None, "nothing to do")
    with pytest.raises(ArgumentError, match="parallelism is 0"):
        lake.call("remove_unexisting_files('t', false, 0)")


def test_deletion_vectors_of_missing_files_go() -> None:
    lake = Lake({"k": "INT"}, deletion_vectors__enabled="true", primary_key=["k"], bucket="1")
    lake.insert((1,), (2,))
    lake.insert((2,), (3,))
    before = data_files(lake)
    lake.table.file_io.delete(before[0])
    assert lake.one("remove_unexisting_files('t')")["status"] == "done"
    assert data_files(lake) == before[1:]
    read_arrow(lake.table)
    lake.insert((5,))
    assert {"k": 5} in read_arrow(lake.table).to_pylist()


def test_missing_manifests_are_removed(lake: Lake) -> None:
    lost = manifests(lake)[1]
    path = lake.table.paths.manifest(lost)
    lake.table.file_io.delete(path)
    clear_cache()
    (action,) = lake.call("EXPLAIN CALL sys.remove_unexisting_manifests('t')")
    assert action["path"] == path
    row = lake.one("remove_unexisting_manifests(tableId => 't')")
    assert (row["result"], row["status"], row["files_in"]) == ("Success", "done", 1)
    assert rows(lake) == [(0, 0), (2, 20), (3, 30)]
    assert lake.table.snapshots.get(5).total_record_count == 3
    assert lake.one("remove_unexisting_manifests('t')")["status"] == "nothing to do"
    lake.insert((1, 11))
    assert len(rows(lake)) == 4


def test_a_missing_manifest_list_is_refused(lake: Lake) -> None:
    latest = lake.table.snapshots.get(4)
    lake.table.file_io.delete(lake.table.paths.manifest(latest.base_manifest_list))
    before = lake.state()
    clear_cache()
    with pytest.raises(CorruptTableError, match="is missing"):
        lake.call("remove_unexisting_manifests('t')")
    assert lake.state() == before


def test_the_earliest_snapshot_is_repaired(lake: Lake) -> None:
    lake.table.file_io.delete(lake.table.paths.snapshot(2))
    (action,) = lake.call("EXPLAIN CALL sys.repair_earliest_snapshot('t', 3)")
    assert (action["action"], action["path"]) == ("write", lake.table.paths.earliest_hint)
    row = lake.one("repair_earliest_snapshot('t', 3)")
    assert (row["previous_earliest_snapshot_id"], row["current_earliest_snapshot_id"], row["status"]) == (1, 3, "done")
    assert lake.table.snapshots.earliest_id() == 3
    assert lake.one("repair_earliest_snapshot('t', 3)")["status"] == "nothing to do"


@pytest.mark.parametrize(
    ("snapshot_id", "error", "part"),
    [
        (4, ArgumentError, "does not follow a gap"),
        (9, NotFoundError, "no snapshot 9"),
        (1, ArgumentError, "Snapshot 2"),
    ],
)
def test_what_cannot_be_the_earliest(lake: Lake, snapshot_id: int, error: type[Exception], part: str) -> None:
    lake.table.file_io.delete(lake.table.paths.snapshot(2))
    before = lake.state()
    with pytest.raises(error, match=part):
        lake.call(f"repair_earliest_snapshot('t', {snapshot_id})")
    assert lake.state() == before

"""repair_snapshots: snapshots and tags with an operation that Paimon does not have."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paimon_spark.engine.repair import execute_repair, plan_repair
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import Operation
from paimon_spark.testing.faults import FaultFileIO, Never
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    """A table with four snapshots and a tag; the second and third have the operations of an older writer."""
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(4):
        lake.insert((i, i))
    lake.call("create_tag('t', 'keep', 2)")
    for path, operation in (
        (lake.table.paths.snapshot(2), "DROP_PARTITION"),
        (lake.table.paths.snapshot(3), "COMPACT"),
    ):
        spoil(lake, path, operation)
    spoil(lake, lake.table.paths.tag("keep"), "DROP_PARTITION")
    return lake


def spoil(lake: Lake, path: str, operation: str) -> None:
    raw = json.loads(lake.table.file_io.read(path)) | {"operation": operation, "of a later release": 1}
    lake.table.file_io.write(path, json.dumps(raw).encode())


def stored(lake: Lake, path: str) -> object:
    return json.loads(lake.table.file_io.read(path)).get("operation")


def test_such_tables_can_be_read_and_written(lake: Lake) -> None:
    assert [s.operation for s in map(lake.table.snapshots.get, (2, 3))] == [Operation.TRUNCATE, None]
    lake.insert((9, 9))
    assert read_arrow(lake.table).num_rows == 5
    assert len(violations(lake.table)) == 3


def test_repair(lake: Lake) -> None:
    paths = lake.table.paths
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.repair_snapshots('t')")
    assert [(a["action"], a["reason"]) for a in plan] == [
        ("write", "snapshot 2: the operation 'DROP_PARTITION' becomes 'TRUNCATE'"),
        ("write", "snapshot 3: the operation 'COMPACT' is removed"),
        ("write", "tag 'keep': the operation 'DROP_PARTITION' becomes 'TRUNCATE'"),
    ]
    assert lake.state() == before
    row = lake.one("repair_snapshots(table => 't')")
    assert (row["repaired_count"], row["status"], row["files_in"], row["files_out"]) == (3, "done", 3, 3)
    assert [stored(lake, p) for p in (paths.snapshot(2), paths.snapshot(3), paths.tag("keep"))] == [
        "TRUNCATE",
        None,
        "TRUNCATE",
    ]
    changed = {path for path, data in lake.state().items() if data != before[path]}
    assert changed == {paths.snapshot(2), paths.snapshot(3), paths.tag("keep")}
    old, new = (json.loads(state[paths.snapshot(2)]) for state in (before, lake.state()))
    assert new == old | {"operation": "TRUNCATE"}
    assert violations(lake.table) == []
    assert lake.one("repair_snapshots('t')")["status"] == "nothing to do"


def test_a_copy_of_such_a_snapshot_is_sound(lake: Lake) -> None:
    lake.call("create_tag('t', 'another', 2)")
    assert stored(lake, lake.table.paths.tag("another")) == "TRUNCATE"


def test_a_name_of_a_later_release_stays(lake: Lake) -> None:
    path = lake.table.paths.snapshot(4)
    spoil(lake, path, "VACUUM")
    assert lake.table.snapshots.get(4).operation == "VACUUM"
    assert lake.one("repair_snapshots('t')")["repaired_count"] == 3
    lake.call("create_tag('t', 'another', 4)")
    assert stored(lake, path) == stored(lake, lake.table.paths.tag("another")) == "VACUUM"


def test_a_snapshot_that_expires_while_it_is_repaired_stays_away(lake: Lake) -> None:
    paths, manifest_list = lake.table.paths, lake.table.snapshots.get(2).delta_manifest_list

    def expire_once(operation: str, path: str) -> None:
        if operation == "write" and path == paths.snapshot(2):
            lake.table.file_io.delete(paths.manifest(manifest_list))

    repairs = plan_repair(lake.table)
    watched = replace(lake.table, file_io=FaultFileIO(lake.table.file_io, Never(), expire_once))
    assert execute_repair(watched, repairs) == 2
    assert not lake.table.file_io.exists(paths.snapshot(2))
    assert lake.table.file_io.exists(paths.tag("keep"))


def test_a_file_that_changes_meanwhile_is_left_alone(lake: Lake) -> None:
    repairs = plan_repair(lake.table)
    spoil(lake, lake.table.paths.snapshot(2), "SOMETHING_ELSE")
    with pytest.raises(ConflictError, match="changed while the repair was being planned"):
        execute_repair(lake.table, repairs)
    assert stored(lake, lake.table.paths.snapshot(2)) == "SOMETHING_ELSE"

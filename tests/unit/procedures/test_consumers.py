"""reset_consumer."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.errors import ArgumentError, NotFoundError, PaimonError
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(8):
        lake.insert((1, i))
    return lake


def consumers(lake: Lake) -> dict[str, int]:
    return RefStore.of(lake.table).consumers()


def test_forms(lake: Lake) -> None:
    row = lake.one("reset_consumer('db.t', 'myid', 4)")
    assert (row["result"], row["status"], row["files_out"], row["snapshot_after"]) == (True, "done", 1, 8)
    lake.call("reset_consumer(table => 't', consumerId => 'c2', nextSnapshotId => '2')")
    lake.call("reset_consumer(table => 't', consumer_id => 'c3', next_snapshot_id => 3)")
    assert consumers(lake) == {"myid": 4, "c2": 2, "c3": 3}
    assert lake.table.file_io.read(f"{lake.table.path}/consumer/consumer-myid") == b'{\n  "nextSnapshot": 4\n}'
    lake.call("reset_consumer('t', 'myid', 5)")
    assert consumers(lake)["myid"] == 5
    assert lake.one("reset_consumer('t', 'c2')")["files_in"] == 1
    assert lake.one("reset_consumer('t', 'c3', '')")["status"] == "done"
    assert lake.one("reset_consumer('t', 'nope')")["status"] == "nothing to do: there is no consumer 'nope'"
    mistyped = "there is no consumer 'mydi'. Did you mean 'myid'?"
    assert lake.call("EXPLAIN CALL sys.reset_consumer('t', 'mydi')")[0]["reason"] == mistyped
    assert lake.one("reset_consumer('t', 'mydi')")["status"] == f"nothing to do: {mistyped}"
    assert consumers(lake) == {"myid": 5}


def test_a_consumer_keeps_what_it_has_to_read(lake: Lake) -> None:
    lake.call("reset_consumer('t', 'c', 4)")
    assert lake.one("expire_snapshots('t', 2)")["deleted_snapshots_count"] == 3
    assert lake.table.snapshots.ids() == [4, 5, 6, 7, 8]
    lake.call("reset_consumer('t', 'c')")
    assert lake.one("expire_snapshots('t', 2)")["deleted_snapshots_count"] == 3
    assert lake.table.snapshots.ids() == [7, 8]


@pytest.mark.parametrize(
    ("arguments", "action"), [("'t', 'c', 2", "write"), ("'t', 'c'", "delete"), ("'t', 'x'", "warn")]
)
def test_the_plan_changes_nothing(lake: Lake, arguments: str, action: str) -> None:
    lake.call("reset_consumer('t', 'c', 4)")
    before = lake.state()
    (row,) = lake.call(f"EXPLAIN CALL sys.reset_consumer({arguments})")
    assert row["action"] == action
    assert lake.state() == before


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', 'c', 99", NotFoundError, "Snapshot 99 does not exist"),
        ("'t', 'c', 0", NotFoundError, "Snapshot 0 does not exist"),
        ("'t', '../../snapshot/LATEST'", ArgumentError, "'/'"),
        ("'t', '..', 1", ArgumentError, "is a path"),
        ("'t', ''", ArgumentError, "lacks the required argument consumer_id"),
        ("'t'", ArgumentError, "lacks the required argument consumer_id"),
        ("table => 't', consumerId => 'a', consumer_id => 'b'", ArgumentError, "twice"),
        ("'t', 'c', 'four'", ArgumentError, "BIGINT"),
    ],
)
def test_wrong_arguments_are_errors_and_change_nothing(
    lake: Lake, arguments: str, error: type[PaimonError], part: str
) -> None:
    lake.call("reset_consumer('t', 'c', 4)")
    before = lake.state()
    with pytest.raises(error) as caught:
        lake.call(f"reset_consumer({arguments})")
    assert part in str(caught.value)
    assert lake.state() == before

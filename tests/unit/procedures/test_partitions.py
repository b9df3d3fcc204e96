"""The procedures over partitions."""

from __future__ import annotations

import json

import pytest

from paimon_spark.calls.binding import bind, literal_of
from paimon_spark.errors import PaimonError
from tests.unit.procedures.calling import NOW, REGISTRY, Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "y": "STRING", "d": "STRING"}, partition=["y", "d"])
    for row in [(1, "2020", "01-01"), (2, "2020", "06-01"), (3, "2999", "01-01")]:
        lake.insert(row)
    return lake


def test_old_partitions_are_dropped(lake: Lake) -> None:
    pattern = "expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$y-$d'"
    plan = lake.call(f"EXPLAIN CALL sys.expire_partitions(table => 't', {pattern})")
    assert [r["path"] for r in plan] == ["y=2020/d=01-01", "y=2020/d=06-01"]
    rows = lake.call(f"expire_partitions(table => 't', {pattern}, max_expires => 1)")
    assert [r["expired_partitions"] for r in rows] == ["y=2020, d=01-01"]
    rows = lake.call(f"expire_partitions(table => 't', {pattern})")
    assert [r["expired_partitions"] for r in rows] == ["y=2020, d=06-01"]
    row = lake.one(f"expire_partitions(table => 't', {pattern})")
    assert (row["expired_partitions"], row["status"]) == ("No expired partitions.", "nothing to do")


def test_partitions_without_a_time_are_counted(lake: Lake) -> None:
    lake.insert((4, "old", "01-01"))
    lake.insert((5, "2020", None))
    pattern = "expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$y-$d'"
    rows = lake.call(f"expire_partitions(table => 't', {pattern})")
    assert {r["status"] for r in rows} == {"done: 2 partitions without a time in the values, not expired"}
    row = lake.one(f"expire_partitions(table => 't', {pattern})")
    assert row["status"] == "nothing to do: 2 partitions without a time in the values, not expired"


def test_the_last_change_counts_by_update_time(lake: Lake) -> None:
    rows = lake.call("expire_partitions('t', '1 d', '', '', 'update-time')")
    assert len(rows) == 3
    with pytest.raises(PaimonError, match=r"partition\.expiration-time"):
        lake.call("expire_partitions('t')")
    with pytest.raises(PaimonError, match="values-time, update-time"):
        lake.call("expire_partitions('t', '1 d', '', '', 'age')")


def test_success_files_keep_when_they_were_created(lake: Lake) -> None:
    lake.call("mark_partition_done('t', 'y=2020,d=01-01;y=2999')")
    lake.now += 1000
    assert lake.one("mark_partition_done(table => 't', partitions => 'y=2020,d=01-01')")["files_out"] == 1
    times = {
        f"{y}/{d}": json.loads(lake.table.file_io.read(f"{lake.table.path}/y={y}/d={d}/_SUCCESS"))
        for y, d in [("2020", "01-01"), ("2999", "01-01")]
    }
    assert times == {
        "2020/01-01": {"creationTime": NOW, "modificationTime": NOW + 1000},
        "2999/01-01": {"creationTime": NOW, "modificationTime": NOW},
    }


def test_a_partition_without_data_is_marked(lake: Lake) -> None:
    row = lake.one("mark_partition_done('t', 'y=2020,d=01-01;d=02-30,y=1999')")
    assert (row["status"], row["files_out"]) == ("done: no data in y=1999/d=02-30", 2)
    assert json.loads(lake.table.file_io.read(f"{lake.table.path}/y=1999/d=02-30/_SUCCESS"))["creationTime"] == NOW
    assert lake.one("mark_partition_done('t', 'y=__DEFAULT_PARTITION__,d=x')")["status"].endswith(
        "y=__DEFAULT_PARTITION__/d=x"
    )


def test_what_cannot_be_marked_is_refused(lake: Lake) -> None:
    with pytest.raises(PaimonError, match="no partition y=1999"):
        lake.call("mark_partition_done('t', 'y=1999')")
    options = {"partition__mark_done_action": "success-file,done-partition"}
    waiting = Lake({"k": "INT", "y": "STRING"}, partition=["y"], **options)
    waiting.insert((1, "2020"))
    with pytest.raises(PaimonError, match="'done-partition', which is not supported"):
        waiting.call("mark_partition_done('t', 'y=2020')")


def test_drop_partition(lake: Lake) -> None:
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.drop_partition('t', 'y=2020,d=06-01', 'y=2999', 'y=1')")
    assert [(r["action"], r["path"]) for r in plan] == [
        ("warn", "y=1"),
        ("drop partition", "y=2020/d=06-01"),
        ("drop partition", "y=2999/d=01-01"),
    ]
    assert lake.state() == before
    row = lake.one("drop_partition('t', 'y=2020,d=06-01', 'y=2999', 'y=1')")
    assert (row["result"], row["status"], row["files_in"]) == ("Success", "done: no partition y=1", 2)
    assert (row["snapshot_before"], row["snapshot_after"]) == (3, 4)
    again = lake.one("drop_partition(table => 't', partitions => 'y=2020,d=06-01;y=2999')")
    assert (again["status"], again["snapshot_after"]) == ("nothing to do: no partition y=2020,d=06-01; y=2999", 4)
    assert lake.one("drop_partition('t', 'y=2020')")["files_in"] == 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("'t'", "lacks the required argument partitions"),
        ("'t', 'x=1'", "'x', which is not a partition column"),
        ("'t', 'y=1', map('a', 'b')", "takes STRING"),
        ("'t', '', NULL", "lacks the required argument"),
    ],
)
def test_drop_partition_errors(lake: Lake, arguments: str, part: str) -> None:
    with pytest.raises(PaimonError, match=part):
        lake.call(f"drop_partition({arguments})")


def test_a_drop_leaves_partitions_written_meanwhile(lake: Lake) -> None:
    procedure = REGISTRY.get("drop_partition")
    args = bind(procedure, (literal_of("t"), literal_of("y=2020")), ())
    plan = procedure.body.plan(lake.ctx(), args)
    lake.insert((4, "2020", "12-01"), (5, "2020", "01-01"))
    report = procedure.body.execute(lake.ctx(), plan)
    assert report.snapshot_after == 5
    (left,) = lake.call("EXPLAIN CALL sys.drop_partition('t', 'y=2020')")
    assert left["path"] == "y=2020/d=12-01"

"""rollback, rollback_to_timestamp, rollback_to_as_latest, replace_tag, rename_tag, clear_consumers, expire_changelogs."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.errors import PaimonError
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(5):
        lake.insert((1, i))
    lake.call("create_tag('t', '2')")
    lake.call("create_tag('t', 'first', 1)")
    return lake


def ids(row: dict[str, object]) -> tuple[object, object]:
    return row["previous_snapshot_id"], row["current_snapshot_id"]


def test_a_version_of_digits_is_a_snapshot(lake: Lake) -> None:
    assert ids(lake.one("rollback(table => 't', version => '4')")) == (5, 4)
    assert ids(lake.one("rollback('t', '3')")) == (4, 3)
    assert ids(lake.one("rollback(table => 't', snapshot => 2)")) == (3, 2)
    assert lake.one("rollback(table => 't', snapshot => 2)")["status"] == "nothing to do"
    assert ids(lake.one("rollback('t', 'first')")) == (2, 1)


def test_rollback_takes_exactly_one_target(lake: Lake) -> None:
    before = lake.state()
    for arguments in ("'t'", "'t', ''", "table => 't', snapshot => 3, tag => 'first'", "'t', '3', 3"):
        with pytest.raises(PaimonError, match="exactly one"):
            lake.call(f"rollback({arguments})")
    for version in ("99", "nosuch"):
        with pytest.raises(PaimonError, match=version):
            lake.call(f"rollback('t', '{version}')")
    assert lake.state() == before


def test_rollback_to_a_time_finds_the_snapshot_before_it(lake: Lake) -> None:
    times = {i: lake.table.snapshots.get(i).time_millis for i in range(1, 6)}
    expected = max(i for i, t in times.items() if t <= times[3])
    assert ids(lake.one(f"rollback_to_timestamp('t', {times[3]})")) == (5, expected)
    with pytest.raises(PaimonError, match=r"1970-01-01 00:00:00.005 UTC; the earliest, \d+, is of .* UTC. Give"):
        lake.call("rollback_to_timestamp('t', 5)")
    with pytest.raises(PaimonError, match=r"BIGINT.*milliseconds after 1970"):
        lake.call("rollback_to_timestamp('t', '2024-01-01')")


def test_rollback_as_latest_reports_three_snapshots(lake: Lake) -> None:
    row = lake.one("rollback_to_as_latest('t', 3)")
    assert (*ids(row), row["rolled_back_snapshot_id"]) == (5, 6, 3)
    row = lake.one("rollback_to_as_latest('t', 'first')")
    assert (*ids(row), row["rolled_back_snapshot_id"]) == (6, 7, 1)
    assert lake.one("rollback_to_as_latest('t', 7)")["status"] == "nothing to do"
    with pytest.raises(PaimonError, match="either"):
        lake.call("rollback_to_as_latest(table => 't', tag => 'first', snapshot_id => 1)")


def test_a_plan_of_a_rollback_changes_nothing(lake: Lake) -> None:
    before = lake.state()
    assert lake.call("EXPLAIN CALL sys.rollback('t', '4')")
    assert [r["action"] for r in lake.call("EXPLAIN CALL sys.rollback_to_as_latest('t', 3)")] == ["write", "write"]
    assert lake.state() == before


def test_a_tag_is_replaced_and_renamed(lake: Lake) -> None:
    tags = RefStore.of(lake.table)
    lake.call("replace_tag(table => 't', tag => 'first', snapshot => 3, time_retained => '2 d')")
    assert (tags.get_tag("first").snapshot.id, tags.get_tag("first").time_retained_text) == (3, "PT48H")
    lake.call("replace_tag('t', 'first')")
    assert tags.get_tag("first").snapshot.id == 5
    lake.call("replace_tag('t', 'first', 2)")
    lake.call("rename_tag(table => 't', tagName => 'first', targetTagName => 'one')")
    assert tags.tag_names() == ["2", "one"]
    for call, match in (
        ("replace_tag('t', 'nosuch', 3)", "TAG_NOT_FOUND"),
        ("rename_tag('t', 'nosuch', 'x')", "TAG_NOT_FOUND"),
        ("rename_tag('t', 'one', '2')", "TAG_EXISTS"),
    ):
        with pytest.raises(PaimonError, match=match):
            lake.call(call)


def test_consumers_are_cleared_by_patterns_of_whole_ids(lake: Lake) -> None:
    names = RefStore.of(lake.table).consumer_names
    for name in ("etl_a", "etl_b", "report", "my_etl_a"):
        lake.call(f"reset_consumer('t', '{name}', 1)")
    assert lake.one("clear_consumers('t', 'etl')")["status"] == "nothing to do"
    assert lake.one("clear_consumers('t', 'etl_.*', 'etl_b')")["files_in"] == 1
    assert names() == ["etl_b", "my_etl_a", "report"]
    lake.call("clear_consumers(table => 't', includingConsumers => '', excludingConsumers => '.*_.*')")
    assert names() == ["etl_b", "my_etl_a"]
    assert [r["action"] for r in lake.call("EXPLAIN CALL sys.clear_consumers('t')")] == ["delete", "delete"]
    lake.call("clear_consumers('t')")
    assert names() == []
    with pytest.raises(PaimonError, match=r"'\['"):
        lake.call("clear_consumers('t', '[')")


def test_forms_of_expire_changelogs() -> None:
    lake = Lake({"k": "INT"}, write_only="true", changelog__time_retained="1000 d")
    for i in range(6):
        lake.insert((i,))
    lake.call("expire_snapshots('t', 1)")
    left = RefStore.of(lake.table).changelog_ids
    assert left() == [1, 2, 3, 4, 5]
    assert lake.one("expire_changelogs('t', 5, 5)")["result"] == "1"
    assert lake.one("expire_changelogs('t', 4)")["result"] == "1"
    assert left() == [3, 4, 5]
    row = lake.one("expire_changelogs('t', 9, 1, '2200-01-01 00:00:00', 1)")
    assert (row["result"], left()) == ("1", [4, 5])
    assert "All" in lake.one("expire_changelogs('t', true)")["result"]
    assert left() == []
    assert lake.one("expire_changelogs(table => 't')")["status"] == "nothing to do"


def test_an_undo_states_files_that_are_lost(lake: Lake) -> None:
    lake.call("rollback_to('t', 3)")
    (gone,) = (p for p in lake.state() if p.endswith("/files/snapshot/snapshot-5"))
    lake.table.file_io.delete(gone)
    text = "1 of the 3 files of the run are missing in the trash"
    assert lake.call("EXPLAIN CALL sys.undo('t', 'last')")[0]["reason"] == text
    row = lake.one("undo('t', 'last')")
    assert (row["restored_snapshots"], row["snapshot_after"], row["status"]) == (1, 4, f"done: {text}")

"""create_tag, delete_tag, expire_snapshots, rollback_to."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.errors import AlreadyExistsError, ArgumentError, ErrorKind, NotFoundError, PaimonError
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(8):
        lake.insert((1, i))
    return lake


def tags(lake: Lake) -> dict[str, int]:
    return {name: tag.snapshot.id for name, tag in RefStore.of(lake.table).tags().items()}


def test_create_tag_forms(lake: Lake) -> None:
    row = lake.one("create_tag('db.t', 'first', 1)")
    assert (row["result"], row["status"], row["files_out"]) == (True, "done", 1)
    lake.call("create_tag('t', 'quoted', '2')")
    lake.call("create_tag('t', 'newest')")
    lake.call("create_tag('t', 'short', '1 d')")
    lake.call("create_tag('t', 'both', 3, '2 d')")
    lake.call("create_tag(table => 't', tag => 'named', snapshot => 4, time_retained => '1 h')")
    assert tags(lake) == {"both": 3, "first": 1, "named": 4, "newest": 8, "quoted": 2, "short": 8}
    kept = RefStore.of(lake.table).tags()
    assert [kept[n].time_retained is None for n in ("first", "newest")] == [True, True]
    assert str(kept["short"].time_retained) == "1 day, 0:00:00"


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', 'one', 1", AlreadyExistsError, "one"),
        ("'t', 'x', 99", NotFoundError, "99"),
        ("table => 't', tag => ' '", ArgumentError, "lacks the required argument tag"),
        ("table => 't', tag => 'x', time_retained => 'soon'", ArgumentError, "'time_retained': 'soon'"),
        ("table => 't'", ArgumentError, "lacks the required argument tag"),
        ("'t', 'x', true", ArgumentError, "BIGINT for the argument 'snapshot_id', not the BOOLEAN value true"),
    ],
)
def test_create_tag_errors(lake: Lake, arguments: str, error: type[PaimonError], part: str) -> None:
    lake.call("create_tag('t', 'one', 1)")
    with pytest.raises(error) as caught:
        lake.call(f"create_tag({arguments})")
    assert part in str(caught.value)
    assert tags(lake) == {"one": 1}


def test_delete_tag(lake: Lake) -> None:
    for name in ("a", "b", "c"):
        lake.call(f"create_tag('t', '{name}')")
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.delete_tag('t', 'a,b,nope')")
    assert [a["action"] for a in plan] == ["warn", "delete", "delete"]
    assert lake.state() == before
    row = lake.one("delete_tag('t', 'a, b')")
    assert (row["result"], row["status"], row["files_in"]) == (True, "done", 2)
    assert tags(lake) == {"c": 8}
    assert lake.one("delete_tag(table => 't', tag => 'a')")["status"] == "nothing to do"


def test_a_mistyped_tag_is_not_deleted_and_told(lake: Lake) -> None:
    for name in ("friday", "monday", "spring"):
        lake.call(f"create_tag('t', '{name}')")
    hint = "there is no tag 'firday'. Did you mean 'friday'?"
    assert lake.call("EXPLAIN CALL sys.delete_tag('t', 'firday')")[0]["reason"] == hint
    row = lake.one("delete_tag('t', 'firday')")
    assert (row["result"], row["status"], row["files_in"]) == (True, f"nothing to do: {hint}", 0)
    row = lake.one("delete_tag('t', 'firday,spring')")
    assert (row["status"], row["files_in"]) == (f"done: {hint}", 1)
    assert sorted(tags(lake)) == ["friday", "monday"]
    assert lake.one("delete_tag('t', 'friday,fridayy')")["status"] == "done"


def test_the_guides_expiry_keeps_the_newest(lake: Lake) -> None:
    lake.now = 0
    lake.call("create_tag('t', 'keep', 1)")
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.expire_snapshots('t', 2)")
    assert lake.state() == before
    assert sum(a["action"] == "delete" and "/snapshot-" in a["path"] for a in plan) == 6
    assert any(a["action"] == "keep" and "keep" in a["kept_by"] for a in plan)
    row = lake.one("expire_snapshots('default_is_db.t', 2)".replace("default_is_db", "db"))
    assert (row["deleted_snapshots_count"], row["status"], row["snapshot_after"]) == (6, "done", 8)
    assert lake.table.snapshots.ids() == [7, 8]
    gone = set(before) - set(lake.state())
    assert gone == {a["path"] for a in plan if a["action"] == "delete"}
    assert row["files_in"] == len(gone)
    assert lake.one("expire_snapshots('t', 2)")["status"] == "nothing to do"


def test_named_expiry(lake: Lake) -> None:
    with pytest.raises(ArgumentError, match=r"retain_max \(2\) is less than retain_min \(10\)"):
        lake.call("expire_snapshots(table => 't', retain_max => 2, retain_min => 10)")
    assert lake.one("expire_snapshots(table => 't', retain_min => 1, max_deletes => 1)")["deleted_snapshots_count"] == 1
    past = "expire_snapshots(table => 't', retain_min => 1, older_than => '2000-01-01 00:00:00')"
    assert lake.one(past)["deleted_snapshots_count"] == 0
    options = "snapshot.num-retained.max=5,snapshot.num-retained.min=5"
    assert lake.one(f"expire_snapshots(table => 't', options => '{options}')")["deleted_snapshots_count"] == 2
    assert lake.one("expire_snapshots('t', '1', '1')")["deleted_snapshots_count"] == 4
    with pytest.raises(ArgumentError, match="older_than"):
        lake.call("expire_snapshots(table => 't', older_than => 'x')")


def test_a_lower_limit_of_nothing_keeps_the_newest(lake: Lake) -> None:
    row = lake.one("expire_snapshots(table => 't', retain_min => 0, retain_max => 1)")
    assert (row["deleted_snapshots_count"], lake.table.snapshots.ids()) == (7, [8])
    with pytest.raises(ArgumentError, match="retain_min is -1"):
        lake.call("expire_snapshots(table => 't', retain_min => -1)")


def test_named_expiry_with_an_upper_limit_alone(lake: Lake) -> None:
    assert lake.one("expire_snapshots(table => 't', retain_max => 2)")["deleted_snapshots_count"] == 6
    assert lake.table.snapshots.ids() == [7, 8]


def test_rollback_by_number_by_text_and_by_name(lake: Lake) -> None:
    lake.call("create_tag('t', '3', 2)")
    lake.call("create_tag('t', 'late', 7)")
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.rollback_to('t', 5)")
    assert lake.state() == before
    row = lake.one("rollback_to('t', 5)")
    assert (row["previous_snapshot_id"], row["current_snapshot_id"], row["status"]) == (8, 5, "done")
    assert set(before) - set(lake.state()) == {a["path"] for a in plan if a["action"] == "delete"}
    assert tags(lake) == {"3": 2}
    assert lake.one("rollback_to('t', '', 4)")["current_snapshot_id"] == 4
    assert lake.one("rollback_to('t', '3')")["current_snapshot_id"] == 2
    assert lake.one("rollback_to(table => 't', snapshot_id => '1')")["current_snapshot_id"] == 1
    again = lake.one("rollback_to(table => 't', snapshot => 1)")
    assert (again["previous_snapshot_id"], again["current_snapshot_id"], again["status"]) == (1, 1, "nothing to do")


def test_rollback_to_the_tag_of_an_expired_snapshot(lake: Lake) -> None:
    lake.call("create_tag('t', 'keep', 3)")
    lake.call("expire_snapshots('t', 2)")
    assert lake.one("rollback_to('t', 'keep')")["current_snapshot_id"] == 3
    assert lake.table.snapshots.ids() == [3]


@pytest.mark.parametrize(
    ("arguments", "error", "kind"),
    [
        ("'t', 99", NotFoundError, ErrorKind.SNAPSHOT_NOT_FOUND),
        ("'t', 'nosuch'", NotFoundError, ErrorKind.TAG_NOT_FOUND),
        ("'t'", ArgumentError, ErrorKind.INVALID_ARGUMENT),
        ("'t', ''", ArgumentError, ErrorKind.INVALID_ARGUMENT),
        ("table => 't', snapshot_id => 1.5", ArgumentError, ErrorKind.TYPE_MISMATCH),
    ],
)
def test_rollback_errors(lake: Lake, arguments: str, error: type[PaimonError], kind: ErrorKind) -> None:
    with pytest.raises(error) as caught:
        lake.call(f"rollback_to({arguments})")
    assert caught.value.kind is kind
    assert lake.table.snapshots.latest_id() == 8

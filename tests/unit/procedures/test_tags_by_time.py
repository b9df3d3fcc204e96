"""Tags by time and watermark, their expiry, and the trigger of automatic tags."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import AlreadyExistsError, ArgumentError, NotFoundError, PaimonError
from tests.unit.procedures.calling import NOW, Lake

DAY = 86_400_000


def tags(lake: Lake) -> dict[str, int]:
    return {name: tag.snapshot.id for name, tag in RefStore.of(lake.table).tags().items()}


def written(lake: Lake, watermark: int | None) -> None:
    """Insert a row by a commit with a watermark."""
    table, data = lake.table, {"k": [1], "v": [watermark or 0]}
    if watermark is not None:
        table = table.with_options({"end-input.watermark": str(watermark)})
    write_arrow(table, lake.rows(data))


@pytest.fixture
def lake() -> Lake:
    """Return a table whose snapshots 1 to 5 have the watermarks null, 1000, 2000, 2000 and 3000."""
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for watermark in (None, 1000, 2000, None, 3000):
        written(lake, watermark)
    return lake


def test_the_first_snapshot_from_a_time(lake: Lake) -> None:
    times = {i: lake.table.snapshots.get(i).time_millis for i in lake.table.snapshots.ids()}
    row = lake.one("create_tag_from_timestamp('t', 'first', 0)")
    assert (row["tagName"], row["snapshot"], row["commit_time"], row["watermark"]) == ("first", 1, times[1], "null")
    expected = min(i for i, t in times.items() if t >= times[3])
    row = lake.one(f"create_tag_from_timestamp('t', 'later', {times[3]}, '1 d')")
    assert (row["snapshot"], row["status"], row["files_out"]) == (expected, "done", 1)
    assert RefStore.of(lake.table).get_tag("later").time_retained_text == "PT24H"
    with pytest.raises(NotFoundError, match=f"{NOW * 2}"):
        lake.call(f"create_tag_from_timestamp('t', 'x', {NOW * 2})")
    with pytest.raises(AlreadyExistsError):
        lake.call("create_tag_from_timestamp('t', 'first', 0)")


def test_the_first_snapshot_from_a_watermark(lake: Lake) -> None:
    before = lake.state()
    (action,) = lake.call("EXPLAIN CALL sys.create_tag_from_watermark('t', 'a', 1)")
    assert (action["action"], action["reason"]) == ("write", "tag 'a' points to snapshot 2")
    assert lake.state() == before
    found = {w: lake.one(f"create_tag_from_watermark('t', 'w{w}', {w})")["snapshot"] for w in (1, 1000, 1001, 3000)}
    assert found == {1: 2, 1000: 2, 1001: 3, 3000: 5}
    with pytest.raises(
        NotFoundError, match=r"3001 or later; the last is 3000, of snapshot 5. Give that watermark or an earlier one"
    ):
        lake.call("create_tag_from_watermark('t', 'x', 3001)")


def test_an_expired_snapshot_counts_while_it_is_tagged(lake: Lake) -> None:
    lake.call("create_tag('t', 'kept', 2)")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    assert lake.one("create_tag_from_watermark('t', 'again', 500)")["snapshot"] == 2
    assert lake.one("create_tag_from_timestamp('t', 'first', 0)")["snapshot"] == 2
    assert lake.one("create_tag_from_watermark('t', 'last', 1001)")["snapshot"] == 5


@pytest.mark.parametrize(("watermark", "target"), [(1000, 2), (1999, 2), (2000, 4), (2999, 4)])
def test_rollback_to_watermark(lake: Lake, watermark: int, target: int) -> None:
    row = lake.one(f"rollback_to_watermark('t', {watermark})")
    assert (row["previous_snapshot_id"], row["current_snapshot_id"], row["status"]) == (5, target, "done")
    assert lake.table.snapshots.ids() == list(range(1, target + 1))


def test_a_rollback_before_every_watermark_changes_nothing(lake: Lake) -> None:
    before = lake.state()
    with pytest.raises(
        NotFoundError, match=r"999 or earlier; the first is 1000, of snapshot 2. Give that watermark or a later"
    ):
        lake.call("rollback_to_watermark('t', 999)")
    assert lake.state() == before
    assert lake.one("rollback_to_watermark('t', 3000)")["status"] == "nothing to do"


def test_a_table_without_watermarks() -> None:
    lake = Lake({"k": "INT", "v": "INT"})
    written(lake, None)
    with pytest.raises(NotFoundError, match="none has a watermark"):
        lake.call("rollback_to_watermark('t', 999)")


def test_expire_tags(lake: Lake) -> None:
    lake.call("create_tag('t', 'day', 1, '1 d')")
    lake.call("create_tag('t', 'week', 2, '7 d')")
    lake.call("create_tag('t', 'for_ever', 3)")
    assert lake.one("expire_tags('t')")["expired_tags"] == "No expired tags."
    lake.now += 2 * DAY
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.expire_tags('t')")
    assert [a["reason"] for a in plan] == ["tag 'day' is deleted: its retention of PT24H has ended"]
    assert lake.state() == before
    row = lake.one("expire_tags('t')")
    assert (row["expired_tags"], row["status"], row["files_in"]) == ("day", "done", 1)
    assert [r["expired_tags"] for r in lake.call("expire_tags('t', '2099-12-31')")] == ["for_ever"]
    assert [r["expired_tags"] for r in lake.call("expire_tags('t', '2100-01-03')")] == ["week"]
    assert tags(lake) == {}


def test_expired_tags_take_the_files_of_expired_snapshots(lake: Lake) -> None:
    lake.call("create_tag('t', 'old', 2, '1 d')")
    lake.call("compact('t')")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    lake.now += 2 * DAY
    row = lake.one("expire_tags('t')")
    assert (row["expired_tags"], row["status"]) == ("old", "done")
    assert row["files_in"] > 3
    assert sorted(lake.table.snapshots.ids()) == [6]


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', 'soon'", ArgumentError, "older_than"),
        ("'nope'", NotFoundError, "nope"),
        ("'t', '2024-01-01', 3", ArgumentError, "at most 2"),
    ],
)
def test_expire_tags_errors(lake: Lake, arguments: str, error: type[PaimonError], part: str) -> None:
    with pytest.raises(error, match=part):
        lake.call(f"expire_tags({arguments})")


def test_automatic_tags_are_created_on_request() -> None:
    options = {"tag__automatic_creation": "watermark", "tag__num_retained_max": "2", "write_only": "true"}
    lake = Lake({"k": "INT", "v": "INT"}, **options)
    for day in (10, 11, 12):
        written(lake, day * DAY)
    plan = lake.call("EXPLAIN CALL sys.trigger_tag_automatic_creation('t')")
    assert [(a["action"], a["path"].rsplit("/", 1)[-1]) for a in plan] == [
        ("write", "tag-1970-01-11"),
        ("write", "tag-1970-01-12"),
    ]
    assert tags(lake) == {}
    row = lake.one("trigger_tag_automatic_creation('t')")
    assert (row["result"], row["status"], row["files_out"]) == (True, "done", 2)
    assert tags(lake) == {"1970-01-11": 2, "1970-01-12": 3}
    assert lake.one("trigger_tag_automatic_creation('t')")["status"] == "nothing to do"
    written(lake, 13 * DAY)
    assert [a["action"] for a in lake.call("EXPLAIN CALL sys.trigger_tag_automatic_creation('t')")] == [
        "write",
        "delete",
    ]
    row = lake.one("trigger_tag_automatic_creation(table => 't')")
    assert (row["files_in"], row["files_out"]) == (1, 1)
    assert tags(lake) == {"1970-01-12": 3, "1970-01-13": 4}


def test_the_trigger_expires_tags_and_leaves_batch_tags(lake: Lake) -> None:
    lake.table = lake.table.with_options({"tag.automatic-creation": "batch"})
    lake.call("create_tag('t', 'day', 1, '1 d')")
    assert lake.one("trigger_tag_automatic_creation('t')")["status"] == "nothing to do"
    lake.now += 2 * DAY
    assert lake.one("trigger_tag_automatic_creation('t')")["files_in"] == 1
    assert tags(lake) == {}

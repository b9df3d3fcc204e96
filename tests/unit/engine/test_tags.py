from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from paimon_spark.core.maintenance.deletion import WARN
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.refs.tags import (
    execute_delete_tags,
    execute_tag,
    expired_tags,
    list_tags,
    plan_create_tag,
    plan_delete_tags,
    plan_rename_tag,
)
from paimon_spark.errors import AlreadyExistsError, ArgumentError, CorruptTableError, ErrorKind, NotFoundError
from paimon_spark.spec.kinds import FileSource
from tests.unit.core import samples
from tests.unit.core.history import History, leaked, lost

DAY = 86_400_000


def history(snapshots: int = 3, **options: str) -> History:
    h = History({k.replace("_", "-").replace("--", "."): v for k, v in options.items()})
    for _ in range(snapshots):
        h.add()
    return h


def create(h: History, name: str, snapshot_id: int | None = None, **more: object) -> int | None:
    plan = plan_create_tag(h.table, name, snapshot_id=snapshot_id, clock_millis=0, **more)  # type: ignore[arg-type]
    snapshot = execute_tag(h.table, plan)
    return None if snapshot is None else snapshot.id


def expire_all(h: History) -> None:
    clear_cache()
    execute_expire(h.table, plan_expire(h.table, ExpireConfig(retain_max=1, retain_min=1), 10**15))


def test_the_newest_snapshot_is_tagged_by_default_as_a_copy() -> None:
    h = history()
    assert create(h, " now ") == 3
    assert h.table.file_io.read(h.table.paths.tag("now")) == h.table.snapshots.get(3).to_json().encode()
    assert create(h, "first", 1) == 1
    assert {n: t.snapshot.id for n, t in list_tags(h.table).items()} == {"first": 1, "now": 3}


def test_a_plan_writes_nothing_and_names_the_file() -> None:
    h = history()
    plan = plan_create_tag(h.table, "t", clock_millis=0)
    assert [(a.action, a.name) for a in plan.actions] == [("write", "tag-t")]
    assert list_tags(h.table) == {}
    execute_tag(h.table, plan)
    assert h.table.file_io.status(plan.actions[0].path).size == plan.actions[0].bytes


def test_retention_comes_from_the_call_or_from_the_table() -> None:
    h = history(tag__default_time_retained="2 h")
    create(h, "default")
    create(h, "own", time_retained_ms=DAY)
    found = list_tags(h.table)
    assert found["default"].time_retained == timedelta(hours=2)
    assert found["own"].time_retained_text == "PT24H"
    assert found["own"].create_time == datetime.fromtimestamp(0)
    assert list(expired_tags(h.table, 2 * 3_600_000)) == []
    assert list(expired_tags(h.table, 2 * 3_600_000 + 1)) == ["default"]
    assert list(expired_tags(h.table, 2 * DAY)) == ["default", "own"]


def test_clocks_and_retentions_beyond_the_calendar() -> None:
    h = history()
    far, most = 400_000_000_000_000, 999_999_999 * DAY
    create(h, "long", time_retained_ms=most)
    create(h, "short", time_retained_ms=DAY)
    assert list(expired_tags(h.table, far)) == ["short"]
    assert list(expired_tags(h.table, -far)) == []
    plan = plan_create_tag(h.table, "late", clock_millis=far, time_retained_ms=DAY)
    execute_tag(h.table, plan)
    assert list_tags(h.table)["late"].create_time is not None
    with pytest.raises(ArgumentError, match="more than 999999999 days"):
        create(h, "longer", time_retained_ms=most + DAY)


def test_existing_tags() -> None:
    h = history()
    create(h, "t", 1)
    with pytest.raises(AlreadyExistsError, match="Tag 't' already exists") as caught:
        create(h, "t", 2)
    assert caught.value.kind is ErrorKind.TAG_EXISTS
    assert create(h, "t", 2, if_not_exists=True) is None
    assert list_tags(h.table)["t"].snapshot.id == 1
    assert create(h, "t", 2, replace=True) == 2
    assert list_tags(h.table)["t"].snapshot.id == 2
    with pytest.raises(NotFoundError, match="Tag 'tt' does not exist"):
        create(h, "tt", replace=True)


def test_two_who_create_one_tag() -> None:
    h = history()
    plan = plan_create_tag(h.table, "t", snapshot_id=1, clock_millis=0)
    create(h, "t", 2)
    with pytest.raises(AlreadyExistsError):
        execute_tag(h.table, plan)
    assert list_tags(h.table)["t"].snapshot.id == 2


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a,b", "a\nb"])
def test_names_that_no_tag_can_have(name: str) -> None:
    with pytest.raises(ArgumentError):
        create(history(1), name)


def test_snapshots_that_cannot_be_tagged() -> None:
    h = history()
    with pytest.raises(NotFoundError, match="Snapshot 99"):
        create(h, "t", 99)
    with pytest.raises(NotFoundError, match="no snapshot"):
        plan_create_tag(samples.table(), "t", clock_millis=0)
    h.table.file_io.delete(h.table.paths.manifest(h.table.snapshots.get(1).base_manifest_list))
    clear_cache()
    with pytest.raises(CorruptTableError):
        create(h, "t", 1)
    assert list_tags(h.table) == {}


def test_an_expired_snapshot_can_be_tagged_while_a_tag_has_it() -> None:
    h = history()
    create(h, "old", 1)
    expire_all(h)
    assert create(h, "again", 1) == 1
    execute_delete_tags(h.table, plan_delete_tags(h.table, "old"))
    assert lost(h.table) == set()


def test_renaming() -> None:
    h = history()
    create(h, "a", 1)
    create(h, "b", 2)
    with pytest.raises(AlreadyExistsError):
        plan_rename_tag(h.table, "a", "b")
    with pytest.raises(NotFoundError):
        plan_rename_tag(h.table, "x", "c")
    execute_tag(h.table, plan_rename_tag(h.table, "a", "c"))
    assert {n: t.snapshot.id for n, t in list_tags(h.table).items()} == {"b": 2, "c": 1}
    with pytest.raises(AlreadyExistsError):
        plan_rename_tag(h.table, "c", "c")


def test_an_interrupted_renaming_is_completed() -> None:
    h = history()
    create(h, "a", 1)
    tag = h.table.file_io.read(h.table.paths.tag("a"))
    execute_tag(h.table, plan_rename_tag(h.table, "a", "b"))
    h.table.file_io.write(h.table.paths.tag("a"), tag)
    plan = plan_rename_tag(h.table, "a", "b")
    assert [(a.action, a.name) for a in plan.actions] == [("delete", "tag-a")]
    execute_tag(h.table, plan)
    assert {n: t.snapshot.id for n, t in list_tags(h.table).items()} == {"b": 1}


def test_deleting_a_list_warns_about_what_is_missing() -> None:
    h = history()
    create(h, "t1", 1)
    create(h, "t2", 2)
    plan = plan_delete_tags(h.table, "t1, nope ,t2,")
    assert [(a.action, a.name) for a in plan.actions] == [
        (WARN, "tag-nope"),
        ("delete", "tag-t1"),
        ("delete", "tag-t2"),
    ]
    result = execute_delete_tags(h.table, plan)
    assert (result.names, result.missing, result.files) == (("t1", "t2"), ("nope",), 2)
    assert (lost(h.table), leaked(h.table)) == (set(), set())
    again = execute_delete_tags(h.table, plan_delete_tags(h.table, "t1"))
    assert (again.names, again.missing, again.files) == ((), ("t1",), 0)
    with pytest.raises(ArgumentError):
        plan_delete_tags(h.table, " , ")


def test_neighbouring_tags_share_files_until_the_last_one_goes() -> None:
    h = History()
    f = [samples.file(1, 9) for _ in range(4)]
    g = samples.file(1, 9, level=5, file_source=FileSource.COMPACT)
    h.add(f[0])
    create(h, "one", 1)
    h.add(f[1])
    create(h, "two", 2)
    create(h, "two again", 2)
    h.compact(f[0], f[1], into=g)
    create(h, "three", 3)
    h.add(f[2])
    expire_all(h)
    assert (lost(h.table), leaked(h.table)) == (set(), set())
    for names, files in (("two", [1, 1]), ("two again", [1, 0]), ("one,three", [0, 0])):
        clear_cache()
        plan = plan_delete_tags(h.table, names)
        before = {s.path for s in h.table.file_io.list_recursive(h.table.path)}
        execute_delete_tags(h.table, plan)
        after = {s.path for s in h.table.file_io.list_recursive(h.table.path)}
        assert before - after == {a.path for a in plan.actions if a.action == "delete"}
        assert [int(h.exists(x)) for x in f[:2]] == files
        assert (lost(h.table), leaked(h.table)) == (set(), set())
    assert h.exists(g)


def test_tags_of_a_branch_are_its_own() -> None:
    main = history()
    create(main, "t", 1)
    branch = History(branch="dev")
    assert RefStore.of(branch.table).tag_names() == []
    assert branch.table.paths.tag("t").endswith("/branch/branch-dev/tag/tag-t")

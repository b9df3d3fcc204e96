"""Success files of tags: `tag.create-success-file`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.engine.refs.tags import (
    execute_delete_tags,
    execute_tag,
    list_tags,
    plan_create_tag,
    plan_delete_tags,
    plan_rename_tag,
)
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, NotFoundError, PaimonError
from paimon_spark.testing.faults import FaultFileIO, Mode
from tests.unit.core.history import MINUTE, History

KEY = "tag.create-success-file"
DAY = 86_400_000


@pytest.fixture
def h() -> History:
    made = History({KEY: "true"})
    for minute in range(3):
        made.at(minute).add()
    return made


def tag(h: History, name: str, *, now: int = 1, **more: object) -> None:
    execute_tag(h.table, plan_create_tag(h.table, name, clock_millis=now, **more))  # type: ignore[arg-type]


def untag(h: History, names: str) -> None:
    execute_delete_tags(h.table, plan_delete_tags(h.table, names))


def told(h: History) -> dict[str, tuple[int, int]]:
    """Return creation and modification time in each success file."""
    files = h.table.file_io.list(h.table.paths.tag_success_dir)
    found = {f.name: json.loads(h.table.file_io.read(f.path)) for f in files}
    return {name: (times["creationTime"], times["modificationTime"]) for name, times in found.items()}


def test_a_tag_has_a_success_file_until_it_is_deleted(h: History) -> None:
    plan = plan_create_tag(h.table, "a", clock_millis=7)
    assert [(x.action, x.name) for x in plan.actions] == [("write", "tag-a"), ("write", "a_SUCCESS")]
    assert told(h) == {}
    execute_tag(h.table, plan)
    assert told(h) == {"a_SUCCESS": (7, 7)}
    assert h.table.file_io.exists(f"{h.table.path}/tag/tag-success-file/a_SUCCESS")
    assert list(list_tags(h.table)) == ["a"]
    gone = plan_delete_tags(h.table, "a")
    assert [x.name for x in gone.actions] == ["tag-a", "a_SUCCESS"]
    assert execute_delete_tags(h.table, gone).files == 2
    assert told(h) == {}


def test_no_success_files_by_default() -> None:
    h = History()
    h.add()
    tag(h, "a")
    assert told(h) == {}


def test_a_replaced_or_renamed_tag_keeps_its_file(h: History) -> None:
    tag(h, "a", now=1)
    tag(h, "a", now=2, replace=True, snapshot_id=1)
    plan = plan_rename_tag(h.table, "a", "b")
    assert [a.path.rpartition("/")[2] for a in plan.actions] == ["tag-b", "b_SUCCESS", "a_SUCCESS", "tag-a"]
    execute_tag(h.table, plan)
    assert told(h) == {"b_SUCCESS": (1, 1)}
    tag(h, "a", now=3)
    assert told(h) == {"a_SUCCESS": (3, 3), "b_SUCCESS": (1, 1)}
    untag(h, "a,b")
    assert told(h) == {}


class _NoSuccessFiles:
    """A schedule in which no success file can be written."""

    def choose(self, operation: str, path: str) -> Mode | None:
        return Mode.BEFORE if operation == "write" and path.endswith("_SUCCESS") else None


def test_a_tag_without_its_success_file_is_not_created(h: History) -> None:
    good = h.table
    h.table = replace(good, file_io=FaultFileIO(good.file_io, _NoSuccessFiles()))
    with pytest.raises((PaimonError, OSError)):
        tag(h, "a")
    h.table = good
    assert list_tags(h.table) == {}
    assert told(h) == {}
    tag(h, "a")
    assert told(h).keys() == {"a_SUCCESS"}


def test_automatic_tags_and_their_expiry() -> None:
    h = History({KEY: "true", "tag.automatic-creation": "process-time", "tag.num-retained-max": "1"})
    for day in range(3):
        h.at(day * DAY // MINUTE).add()
        maintain_after_commit(h.table, lambda d=day: d * DAY)  # type: ignore[misc]
    (name,) = list_tags(h.table)
    assert told(h).keys() == {f"{name}_SUCCESS"}


def test_a_tag_of_batches_is_created_anew() -> None:
    h = History({KEY: "true", "tag.automatic-creation": "batch", "tag.batch.customized-name": "last"})
    for minute in (1, 2):
        h.at(minute).add()
        maintain_after_commit(h.table, lambda m=minute: m)  # type: ignore[misc]
        assert told(h) == {"last_SUCCESS": (minute, minute)}


def test_the_tag_of_an_expired_retention(h: History) -> None:
    tag(h, "short", now=0, time_retained_ms=1000)
    tag(h, "long", now=0)
    assert told(h).keys() == {"short_SUCCESS", "long_SUCCESS"}
    maintain_after_commit(h.table, lambda: DAY)
    assert told(h).keys() == {"long_SUCCESS"}


def test_a_rollback_takes_the_success_files_of_newer_tags(h: History) -> None:
    tag(h, "old", snapshot_id=1)
    tag(h, "new", snapshot_id=3)
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2))
    assert told(h).keys() == {"old_SUCCESS"}


def test_branches_have_their_own(h: History) -> None:
    tag(h, "a")
    execute_create_branch(h.table, plan_create_branch(h.table, "dev", tag="a"))
    main, h.table = h.table, replace(h.table, branch="dev")
    assert told(h) == {}
    tag(h, "b")
    assert told(h).keys() == {"b_SUCCESS"}
    h.table = main
    assert told(h).keys() == {"a_SUCCESS"}


def test_success_files_are_no_orphans_but_temporary_files_are(h: History) -> None:
    tag(h, "a")
    left = f"{h.table.paths.tag_success_dir}/.a_SUCCESS.799fdba1-a938-4add-93bb-4e9f8ed49956.tmp"
    h.table.file_io.write(left, b"")
    now = h.table.file_io.status(left).mtime_ms + 1
    done = execute_orphans(plan_orphans([h.table], LocalRunner(), clock_millis=now + 1, older_than=now))
    assert done.files == 1
    assert told(h).keys() == {"a_SUCCESS"}


def test_the_directory_is_no_tag(h: History) -> None:
    with pytest.raises(ArgumentError, match="directory of success files"):
        tag(h, "success-file")
    tag(h, "a")
    with pytest.raises(ArgumentError, match="directory of success files"):
        plan_rename_tag(h.table, "a", "success-file")
    with pytest.raises(NotFoundError, match="'success-file' does not exist; the tags are a"):
        RefStore.of(h.table).get_tag("success-file")
    plain = History()
    plain.add()
    tag(plain, "success-file")
    assert list(list_tags(plain.table)) == ["success-file"]

"""Creation, renaming and deletion of branches, and what they protect."""

from __future__ import annotations

from dataclasses import replace
from threading import Timer

import pyarrow as pa
import pytest

from paimon_spark.core.maintenance.deletion import WRITE
from paimon_spark.core.metadata.branches import branch_names, on_branch
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.branches import (
    execute_create_branch,
    execute_delete_branches,
    execute_rename_branch,
    plan_create_branch,
    plan_delete_branches,
    plan_rename_branch,
)
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import AlreadyExistsError, ArgumentError, CorruptTableError, NotFoundError, UsageError
from paimon_spark.spec.column_changes import AddColumn
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.tables import new_table, read_arrow

FAR = 10**15


def keyed(rows: int = 3, **options: str) -> Table:
    """Return a primary key table with one snapshot per row, each of which replaces the row of key 1."""
    table = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "1", **options})
    for i in range(rows):
        put(table, 1, i)
    return table


def put(table: Table, k: int, v: int) -> None:
    write_arrow(table, pa.table({"k": pa.array([k], pa.int32()), "v": pa.array([v], pa.int32())}))


def rows(table: Table) -> list[tuple[int, int]]:
    found = read_arrow(table).to_pylist()
    return sorted((r["k"], r["v"]) for r in found)


def tag(table: Table, name: str, snapshot_id: int) -> None:
    execute_tag(table, plan_create_tag(table, name, snapshot_id=snapshot_id, clock_millis=0))


def create(table: Table, name: str, **start: object) -> Table:
    assert execute_create_branch(table, plan_create_branch(table, name, **start))  # type: ignore[arg-type]
    return on_branch(table, name.strip())


def expire_all(table: Table) -> None:
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))


def test_a_branch_of_a_tag_has_its_rows_and_the_tag() -> None:
    table = keyed()
    tag(table, "a", 2)
    branch = create(table, " b ", tag="a")
    assert rows(branch) == [(1, 1)]
    assert branch.snapshots.ids() == [2]
    assert RefStore.of(branch).tag_names() == ["a"]
    assert branch_names(table) == ["b"]


def test_a_branch_of_an_expired_tag_has_its_rows() -> None:
    table = keyed()
    tag(table, "a", 1)
    expire_all(table)
    assert rows(create(table, "b", tag="a")) == [(1, 0)]


def test_a_branch_of_a_snapshot_has_its_rows_and_no_tag() -> None:
    table = keyed()
    branch = create(table, "b", snapshot_id=2)
    assert rows(branch) == [(1, 1)]
    assert RefStore.of(branch).tag_names() == []


def test_an_empty_branch_has_all_schemas_and_no_snapshot() -> None:
    table = keyed()
    schema = apply_changes(table.schema, [AddColumn(("c",), parse_atomic("INT"))], 0, has_snapshots=True)
    table.schema_store.try_create(schema)
    branch = create(table.with_schema(schema), "b")
    assert branch.schema_store.ids() == [0, 1]
    assert branch.schema.field_names == ("k", "v", "c")
    assert branch.snapshots.ids() == []


def test_a_branch_of_a_tag_has_no_later_schema() -> None:
    table = keyed(1)
    tag(table, "a", 1)
    schema = apply_changes(table.schema, [AddColumn(("c",), parse_atomic("INT"))], 0, has_snapshots=True)
    table.schema_store.try_create(schema)
    assert create(table.with_schema(schema), "b", tag="a").schema.field_names == ("k", "v")


def test_writes_to_a_branch_and_to_main_do_not_meet() -> None:
    table = keyed()
    tag(table, "a", 2)
    branch = create(table, "b", tag="a")
    put(branch, 2, 20)
    put(table, 3, 30)
    assert rows(branch) == [(1, 1), (2, 20)]
    assert rows(table) == [(1, 2), (3, 30)]


@pytest.mark.parametrize("name", ["main", "12", " ", "a/b", "a$b"])
def test_a_branch_cannot_have_that_name(name: str) -> None:
    with pytest.raises(ArgumentError):
        plan_create_branch(keyed(1), name)


def test_a_branch_starts_from_one_existing_place() -> None:
    table = keyed(1)
    tag(table, "a", 1)
    with pytest.raises(ArgumentError, match="both"):
        plan_create_branch(table, "b", tag="a", snapshot_id=1)
    with pytest.raises(NotFoundError, match="nosuch"):
        plan_create_branch(table, "b", tag="nosuch")
    with pytest.raises(NotFoundError, match="9"):
        plan_create_branch(table, "b", snapshot_id=9)


def test_an_existing_branch_is_refused_or_kept() -> None:
    table = keyed()
    branch = create(table, "b", snapshot_id=2)
    with pytest.raises(AlreadyExistsError, match="'b'"):
        plan_create_branch(table, "b")
    kept = plan_create_branch(table, "b", if_not_exists=True)
    assert kept.actions == ()
    assert not execute_create_branch(table, kept)
    assert rows(branch) == [(1, 1)]


def test_two_creators_of_one_branch_do_not_mix() -> None:
    table = keyed()
    one, other = plan_create_branch(table, "b", snapshot_id=1), plan_create_branch(table, "b", snapshot_id=2)
    assert execute_create_branch(table, one)
    with pytest.raises(AlreadyExistsError):
        execute_create_branch(table, other)
    assert rows(on_branch(table, "b")) == [(1, 0)]


def test_a_branch_is_not_made_of_a_snapshot_that_expired() -> None:
    table = keyed()
    plan = plan_create_branch(table, "b", snapshot_id=1)
    expire_all(table)
    with pytest.raises(NotFoundError, match="expired"):
        execute_create_branch(table, plan)
    assert list(table.file_io.list_recursive(table.paths.branch_dir("b"))) == []


def test_an_interrupted_creation_is_completed_or_refused() -> None:
    table = keyed()
    plan = plan_create_branch(table, "b", snapshot_id=1)
    table.file_io.write(plan.files[0].path, plan.files[0].data)
    assert branch_names(table) == []
    with pytest.raises(AlreadyExistsError, match="incomplete"):
        plan_create_branch(table, "b", snapshot_id=2)
    assert rows(create(table, "b", snapshot_id=1)) == [(1, 0)]


def test_a_branch_protects_its_files() -> None:
    table = keyed()
    tag(table, "a", 1)
    branch = create(table, "b", tag="a")
    execute_delete_tags(table, plan_delete_tags(table, "a"))
    expire_all(table)
    assert table.snapshots.ids() == [3]
    runner = LocalRunner()
    execute_orphans(plan_orphans([table], runner, clock_millis=FAR))
    assert rows(branch) == [(1, 0)]
    assert rows(table) == [(1, 2)]


def test_the_tag_of_an_expired_snapshot_keeps_files_of_a_branch() -> None:
    table = keyed()
    tag(table, "a", 1)
    branch = create(table, "b", tag="a")
    expire_all(table)
    execute_delete_tags(table, plan_delete_tags(table, "a"))
    assert rows(branch) == [(1, 0)]


def test_expiry_of_a_branch_keeps_the_files_of_main() -> None:
    table = keyed()
    branch = create(table, "b", snapshot_id=3)
    for i in range(5):
        put(branch, 1, 100 + i)
    expire_all(branch)
    assert rows(branch) == [(1, 104)]
    assert rows(table) == [(1, 2)]
    assert rows(table.with_options({"scan.snapshot-id": "1"})) == [(1, 0)]


def test_a_rollback_of_a_branch_is_its_own() -> None:
    table = keyed()
    branch = create(table, "b", snapshot_id=2)
    put(branch, 2, 5)
    execute_rollback(branch, plan_rollback(branch, snapshot_id=2))
    assert rows(branch) == [(1, 1)]
    assert table.snapshots.ids() == [1, 2, 3]


def test_a_deleted_branch_leaves_its_data_to_orphan_removal() -> None:
    table = keyed()
    branch = create(table, "b", snapshot_id=2)
    put(branch, 7, 7)
    create(table, "c")
    plan = plan_delete_branches(table, "b, c")
    assert plan.actions
    execute_delete_branches(table, plan)
    assert branch_names(table) == []
    assert list(table.file_io.list_recursive(table.paths.branches_dir)) == []
    runner = LocalRunner()
    removed = execute_orphans(plan_orphans([table], runner, clock_millis=FAR))
    assert removed.files
    assert rows(table) == [(1, 2)]


def test_branches_that_cannot_be_deleted() -> None:
    table = keyed(**{"scan.fallback-branch": "b"})
    create(table, "b")
    with pytest.raises(ArgumentError, match="main"):
        plan_delete_branches(table, "main")
    with pytest.raises(NotFoundError, match="nosuch"):
        plan_delete_branches(table, "nosuch")
    with pytest.raises(ArgumentError):
        plan_delete_branches(table, " , ")
    with pytest.raises(UsageError, match=r"scan\.fallback-branch"):
        plan_delete_branches(table, "b")
    with pytest.raises(UsageError, match=r"scan\.fallback-branch"):
        plan_rename_branch(table, "b", "c")


def test_an_incomplete_branch_can_be_deleted() -> None:
    table = keyed()
    create(table, "b", snapshot_id=1)
    table.file_io.delete(replace(table, branch="b").paths.schema(0))
    runner = LocalRunner()
    with pytest.raises(CorruptTableError, match=r"'b' .*has no schema.*delete_branch"):
        plan_orphans([table], runner, clock_millis=FAR)
    execute_delete_branches(table, plan_delete_branches(table, "b"))
    plan_orphans([table], runner, clock_millis=FAR)


def test_a_branch_that_is_just_created_is_waited_for() -> None:
    table = keyed()
    plan = plan_create_branch(table, "b", snapshot_id=1)
    for file in plan.files[:-1]:
        table.file_io.write(file.path, file.data)
    timer = Timer(0.2, lambda: table.file_io.write(plan.files[-1].path, plan.files[-1].data))
    timer.start()
    plan_orphans([table], LocalRunner(), clock_millis=FAR)
    timer.join()


def test_a_renamed_branch_keeps_its_content() -> None:
    table = keyed()
    create(table, "b", snapshot_id=2)
    plan = plan_rename_branch(table, "b", "c")
    assert [a.action for a in plan.actions] == [WRITE, "delete"]
    execute_rename_branch(table, plan)
    assert branch_names(table) == ["c"]
    assert rows(on_branch(table, "c")) == [(1, 1)]


def test_a_branch_is_not_renamed_to_or_from_a_wrong_name() -> None:
    table = keyed()
    create(table, "b")
    create(table, "c")
    for old, new, error in (
        ("nosuch", "d", NotFoundError),
        ("b", "c", AlreadyExistsError),
        ("b", "main", ArgumentError),
        ("main", "d", ArgumentError),
    ):
        with pytest.raises(error):
            plan_rename_branch(table, old, new)


def test_a_missing_branch_is_named_with_those_there_are() -> None:
    table = keyed(1)
    create(table, "release")
    with pytest.raises(NotFoundError, match="release"):
        on_branch(table, "relase")

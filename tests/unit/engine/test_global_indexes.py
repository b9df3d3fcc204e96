"""Global indexes beside other statements: rows are never missing, and stale indexes are never committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.table import Table
from paimon_spark.engine.global_indexes import CreatePlan, execute_create, index_column, index_kind, plan_create
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import RowChanges, change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ArgumentError, ConflictError, PaimonError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.column_changes import AddColumn, UpdateColumnType
from paimon_spark.spec.global_indexes import GlobalIndex
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Predicate
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.invariants import leaked, violations
from tests.small_tables import put
from tests.unit.procedures.calling import Lake

TRACKED = {
    "row_tracking__enabled": "true",
    "metadata__stats_mode": "none",
    "compaction__min__file_num": "2",
    "write_only": "true",
}
MARKED = TRACKED | {"deletion_vectors__enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "tracked": TRACKED,
    "marked": MARKED,
    "evolving": MARKED | {"data_evolution__enabled": "true"},
}
ASKED: tuple[Predicate, ...] = (
    *(Comparison("=", "k", k) for k in range(8)),
    *(Comparison("<", "n", n) for n in (5, 21, 35)),
    InList("k", (2, 99)),
    Comparison("=", "n", 77),
    IsNull("n"),
)
PLACES = (FILE_PATH, ROW_INDEX, VECTOR)
OFF = {"global-index.enabled": "false"}


def lake(kind: str, **options: str) -> Lake:
    """Return a table of four files, each of two keys."""
    found = Lake({"k": "INT", "n": "INT"}, **KINDS[kind], **options)
    for first in range(0, 8, 2):
        put(found.table, (first, first * 10), (first + 1, None if first == 4 else first * 10 + 1))
    return found


def indexed(kind: str) -> Lake:
    """Return a table with an index of both columns."""
    found = lake(kind)
    found.call("create_global_index('t', 'k', 'btree')")
    found.call("create_global_index('t', 'n', 'bitmap')")
    assert plan_select(found.table, predicate=Comparison("=", "k", 5)).counts.files == 1
    assert plan_select(found.table, predicate=IsNull("n")).counts.files == 1
    return found


def matching(table: Table, predicate: Predicate, **how: Any) -> list[tuple[Any, ...]]:
    """Return the rows of the files that a filter leaves, and of these those that match."""
    plan = plan_select(table, predicate=predicate, **how)
    batches = [b for s in plan.splits for b in read_split(plan.table, s, plan.columns, predicate=predicate)]
    return sorted((tuple(r.values()) for b in batches for r in b.to_pylist()), key=repr)


def check(table: Table, **how: Any) -> None:
    """Compare all filters with and without indexes."""
    for predicate in ASKED:
        everything = plan_select(table.with_options(OFF), **how)
        batches = [b for s in everything.splits for b in read_split(everything.table, s, everything.columns)]
        content = [r for b in batches for r in b.to_pylist()]
        wanted = sorted((tuple(r.values()) for r in content if holds(predicate, r)), key=repr)
        found = matching(table, predicate, **how)
        names = plan_select(table, **how).columns
        kept = [row for row in found if holds(predicate, dict(zip(names, row, strict=True)))]
        assert kept == wanted, predicate


def holds(predicate: Predicate, row: dict[str, Any]) -> bool:
    """Return whether a row matches one of the filters above."""
    match predicate:
        case Comparison("=", column, value):
            return bool(row[column] == value)
        case Comparison("<", column, value):
            return row[column] is not None and row[column] < value
        case InList(column, values):
            return row[column] in values
        case IsNull(column):
            return row[column] is None
    raise AssertionError(predicate)


def change(table: Table, of: Callable[[dict[str, Any]], dict[str, Any] | None], *columns: str) -> None:
    """Set columns of rows; delete those for which `of` returns None, and leave those for which it returns nothing."""
    plan = plan_select(with_all_rows(table))
    batches = [b for s in plan.splits for b in read_split(plan.table, s, plan.columns, metadata_columns=PLACES)]
    changes = []
    for row in sorted((r for b in batches for r in b.to_pylist()), key=lambda r: (r[FILE_PATH], r[ROW_INDEX])):
        after = of(row)
        if after is None:
            changes.append(row | {ROW_KIND: RowKind.DELETE})
        elif after:
            changes.append(row | after | {ROW_KIND: RowKind.UPDATE_AFTER})
    schema = to_arrow_schema(table.schema.fields)
    kinds = ((ROW_KIND, pa.int8()), (FILE_PATH, pa.string()), (ROW_INDEX, pa.int64()), (VECTOR, pa.int64()))
    schema = pa.schema([*schema, *(pa.field(*k) for k in kinds)])
    rows = pa.Table.from_pylist(changes, schema=schema)
    change_arrow(table, rows, Operation.MERGE, row_changes=RowChanges(columns, deletes=True))


def planned(table: Table, column: str = "n") -> CreatePlan:
    """Return what an index of a column is built of."""
    return plan_create(table, index_column(table, column), index_kind("btree"), None)


def index_files(table: Table) -> int:
    """Return the number of index files."""
    return sum(e.file.global_index is not None for e in ManifestStore(table).index_entries(table.snapshots.latest()))


def test_an_index_of_a_column_that_changes_meanwhile_is_refused() -> None:
    table = lake("evolving").table
    plan = planned(table)
    change(table, lambda r: {"n": 77} if r["k"] == 3 else {}, "n")
    with pytest.raises(ConflictError, match="the rows 2 to 3"):
        execute_create(plan, LocalRunner())
    assert index_files(table) == 0
    assert leaked(table) == set()
    again = execute_create(planned(table), LocalRunner())
    assert again.rows == 8
    check(table)


def test_an_index_of_a_column_that_is_added_meanwhile_is_refused() -> None:
    found = lake("evolving")
    table = found.alter_table(found.table.identifier, [AddColumn(("m",), parse_atomic("INT"))])
    plan = planned(table, "m")
    change(table, lambda r: {"m": 1} if r["k"] == 3 else {}, "m")
    with pytest.raises(ConflictError, match="the rows 2 to 3"):
        execute_create(plan, LocalRunner())


def test_changes_of_other_columns_and_rows_meanwhile() -> None:
    table = lake("evolving").table
    plan = planned(table)
    change(table, lambda r: {"k": 50} if r["k"] == 3 else {}, "k")
    change(table, lambda r: None if r["k"] == 6 else {})
    put(table, (77, 77))
    assert execute_create(plan, LocalRunner()).rows == 8
    check(table)
    assert plan_select(table, predicate=Comparison("=", "n", 31)).counts.files <= 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["compact(table => 't', compact_strategy => 'full')", "rollback('t', '2')"])
def test_an_index_of_files_that_are_replaced_is_refused(kind: str, text: str) -> None:
    found = lake(kind)
    plan = planned(found.table)
    found.call(text)
    put(found.table, (50, 50), (51, 51), (52, 52), (53, 53))
    with pytest.raises(ConflictError, match="moved, removed or updated"):
        execute_create(plan, LocalRunner())
    assert not [p for p in leaked(found.table) if p.endswith(".index")]
    check(found.table)


def test_the_same_rows_are_indexed_once() -> None:
    table = lake("tracked").table
    plan = planned(table)
    execute_create(plan, LocalRunner())
    with pytest.raises(ConflictError, match="btree index file"):
        execute_create(plan, LocalRunner())
    assert execute_create(planned(table), LocalRunner()).files == 0


def test_an_indexed_column_is_not_changed() -> None:
    table = indexed("evolving").table
    before = table.snapshots.latest_id()
    with pytest.raises(UnsupportedError, match=r"'n' of table db\.t has a global index"):
        change(table, lambda r: {"n": 77}, "n")
    assert table.snapshots.latest_id() == before
    assert leaked(table) == set()


@pytest.mark.parametrize(("action", "left"), [("DROP_PARTITION_INDEX", 1), ("IGNORE", 2)])
def test_the_action_for_indexes_of_a_changed_column(action: str, left: int) -> None:
    found = lake("evolving", global_index__column_update_action=action)
    found.call("create_global_index('t', 'k', 'btree')")
    found.call("create_global_index('t', 'n', 'bitmap')")
    table = found.table
    change(table, lambda r: {"n": 77} if r["k"] == 3 else {}, "n")
    assert index_files(table) == left
    check(table)
    assert plan_select(table, predicate=Comparison("=", "k", 5)).counts.files == (1 if left == 1 else 5)
    assert violations(table) == []
    found.call("compact(table => 't', compact_strategy => 'full')")
    check(table)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_found_after_other_statements(kind: str) -> None:
    found = indexed(kind)
    table = found.table
    found.call("create_tag('t', 'first', 6)")
    put(table, (77, 77), (2, 20))
    check(table)
    found.call("create_branch('t', 'dev', 'first')")
    if kind == "marked":
        gone = plan_select(with_all_rows(table), columns=(), predicate=Comparison("=", "k", 5))
        change_arrow(table, deletions(gone), Operation.DELETE)
    if kind == "evolving":
        change(table, lambda r: None if r["k"] == 5 else {})
    check(table)
    found.call("compact(table => 't', compact_strategy => 'full')")
    check(table)
    put(table, (3, 30))
    found.call("create_global_index('t', 'k', 'btree')")
    check(table)
    check(table, version="first")
    found.call("rollback_to('t', 'first')")
    put(table, (99, 1), (3, 5))
    check(table)
    found.call("create_global_index('t', 'k', 'btree')")
    check(table)
    assert violations(table) == []


@pytest.mark.parametrize("kind", KINDS)
def test_cleaning_keeps_the_index_files_in_use(kind: str) -> None:
    found = indexed(kind)
    table = found.table
    found.call("create_tag('t', 'first')")
    found.call("create_branch('t', 'dev', 'first')")
    assert found.one("drop_global_index('t', 'k', 'btree')")["dropped_file_count"] == 1
    for text in (
        "expire_snapshots('t', 1)",
        "remove_orphan_files(table => 't', mode => 'LOCAL')",
        "delete_tag('t', 'first')",
        "remove_orphan_files(table => 't', mode => 'LOCAL')",
    ):
        found.call(text)
        assert violations(table) == []
        check(table)
    check(table.with_options({"branch": "dev"}))
    found.call("delete_branch('t', 'dev')")
    found.call("empty_trash(table => 't', older_than => '2100-01-02')")
    found.call("remove_orphan_files(table => 't', mode => 'LOCAL')")
    assert violations(table) == []
    left = [f for f in table.file_io.list_recursive(table.paths.index_dir) if f.path.endswith(".index")]
    assert len(left) == 1
    check(table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create_global_index('t', 'k', 'lumina')", "types are 'btree', 'bitmap'"),
        ("create_global_index('t', 'x', 'btree')", "has no column 'x'"),
        ("create_global_index('t', 'k,n', 'btree')", "has one column, not 2"),
        ("create_global_index('t', 'k,k', 'btree')", "'k' twice"),
        ("create_global_index('t', ',', 'btree')", "names no column"),
        ("create_global_index('t', 'k', 'btree', '', 'btree-index.compression=gzip')", "'gzip' is not supported"),
        ("create_global_index('t', 'k', 'btree', '', 'sorted-index.records-per-range=0')", "must be positive"),
        ("drop_global_index('t', 'k', 'full-text')", "types are 'btree', 'bitmap'"),
    ],
)
def test_wrong_arguments(text: str, message: str) -> None:
    found = lake("tracked")
    with pytest.raises(PaimonError, match=message) as error:
        found.call(text)
    assert isinstance(error.value, ArgumentError | UnsupportedError)
    assert index_files(found.table) == 0


def test_an_index_outside_of_the_table_is_not_used() -> None:
    table = indexed("evolving").table
    for e in ManifestStore(table).index_entries(table.snapshots.latest()):
        outside = replace(e.file, external_path=f"/elsewhere/{e.file.file_name}")
        for change in ({"deleted_index_files": (e.file,)}, {"new_index_files": (outside,)}):
            message = CommitMessage(partition=e.partition, bucket=e.bucket, total_buckets=-1, **change)
            FileStoreCommit(table).commit([message])
    check(table)
    assert plan_select(table, predicate=Comparison("=", "k", 5)).counts.files == 4


def test_empty_texts_are_found_by_indexes_of_older_releases() -> None:
    found = Lake({"k": "INT", "s": "STRING"}, **TRACKED)
    put(found.table, (0, ""), (1, None))
    put(found.table, (2, None))
    found.call("create_global_index('t', 's', 'btree')")
    table = found.table
    (entry,) = ManifestStore(table).index_entries(table.snapshots.latest())
    index = GlobalIndex.parse(entry.file.global_index or b"")
    older = replace(entry.file, global_index=replace(index, meta=bytes(8) + b"\1").packed())
    changes: list[dict[str, Any]] = [{"deleted_index_files": (entry.file,)}, {"new_index_files": (older,)}]
    for change in changes:
        message = CommitMessage(partition=entry.partition, bucket=entry.bucket, total_buckets=-1, **change)
        FileStoreCommit(table).commit([message])
    for predicate in (Comparison("=", "s", ""), Comparison("<", "s", "a"), Comparison(">=", "s", "")):
        assert [row for row in matching(table, predicate) if row[1] is not None] == [(0, "")]
    assert plan_select(table, predicate=Comparison("=", "s", "a")).counts.files == 0
    assert plan_select(table, predicate=IsNull("s")).counts.files == 2


def test_an_index_that_queries_do_not_use_is_named() -> None:
    found = lake("tracked")
    assert found.one("create_global_index('t', 'k', 'btree')")["status"] == "done"
    found.alter_table(found.table.identifier, [UpdateColumnType(("n",), parse_atomic("BIGINT"))])
    status = found.one("create_global_index('t', 'n', 'btree')")["status"]
    assert status == "done: Queries do not use the index: the type of 'n' was changed."
    check(found.table)
    off = lake("evolving", global_index__column_update_action="IGNORE")
    assert (
        "'global-index.column-update-action' is 'IGNORE'"
        in off.one("create_global_index('t', 'n', 'bitmap')")["status"]
    )


def test_tables_without_row_ids_are_refused() -> None:
    found = Lake({"k": "INT", "b": "BYTES"}, row_tracking__enabled="true")
    with pytest.raises(UnsupportedError, match="its type is not a key"):
        found.call("create_global_index('t', 'b', 'btree')")
    with pytest.raises(UnsupportedError, match="does not number its rows"):
        Lake({"k": "INT"}).call("create_global_index('t', 'k', 'btree')")


def test_small_values_are_sorted_in_bounded_memory() -> None:
    table = Lake({"b": "BOOLEAN"}, **TRACKED).table
    rows = 5_000_000
    write_arrow(table, pa.table({"b": pa.array(np.arange(rows) % 2 == 0)}))
    done = execute_create(planned(table, "b"), LocalRunner())
    assert (done.files, done.rows) == (2, rows)

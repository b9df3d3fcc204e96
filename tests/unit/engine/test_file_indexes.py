"""File indexes of tables: what is written and left out, what is refused, and how indexes are rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.compact.file_indexes import IndexRewriter
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.compaction.rewrite_file_index import execute_index_rewrite, plan_index_rewrite
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError, CorruptTableError, UnsupportedError
from paimon_spark.spec.column_changes import UpdateColumnType
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta
from paimon_spark.spec.predicate import And, Comparison, InList, IsNull, Or, Predicate
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.procedures.calling import Lake

COLUMNS = {"id": "INT", "k": "INT", "s": "STRING", "x": "BIGINT"}
INDEXES = {
    "file-index.bitmap.columns": "k",
    "file-index.bloom-filter.columns": "s,id",
    "file-index.bloom-filter.s.items": "50",
    "file-index.bloom-filter.id.items": "50",
    "file-index.range-bitmap.columns": "x",
    "metadata.stats-mode": "none",
}
BESIDE = {"file-index.in-manifest-threshold": "0 b"}
OFF = {"file-index.read.enabled": "false"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "tracked": ([], {"row-tracking.enabled": "true"}),
    "append with vectors": ([], {"deletion-vectors.enabled": "true"}),
    "keyed": (["id"], {"bucket": "2"}),
    "keyed with vectors": (["id"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "orc": ([], {"file.format": "orc"}),
}


def rows_of(file: int, count: int = 20) -> pa.Table:
    """Return the rows of one commit; those of the next one begin ten keys later."""
    numbers = range(count)
    return pa.table(
        {
            "id": pa.array([file * 10 + i for i in numbers], pa.int32()),
            "k": pa.array([None if i == 5 else i % 7 * 3 + file for i in numbers], pa.int32()),
            "s": [f"{i}-{file}" for i in numbers],
            "x": pa.array([i * 3 + file for i in numbers], pa.int64()),
        }
    )


def filled(kind: str, **more: str) -> Table:
    """Return a table of three commits, with a deleted row if it has deletion vectors."""
    keys, options = KINDS[kind]
    table = new_table(COLUMNS, primary_key=keys, options=options | more)
    for file in range(3):
        write_arrow(table, rows_of(file))
    if kind == "append with vectors":
        chosen = plan_select(table, columns=(), predicate=Comparison("=", "id", 12))
        change_arrow(table, deletions(chosen), "DELETE")
    return table


def contents(table: Table, predicate: Predicate | None = None) -> list[dict[str, Any]]:
    """Return the rows in order."""
    found: list[dict[str, Any]] = read_arrow(table, predicate=predicate).to_pylist()
    return sorted(found, key=repr)


def files(table: Table) -> list[DataFileMeta]:
    """Return the live files."""
    return [e.file for e in scan(table, table.snapshots.latest()).entries]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beside", [True, False])
def test_files_without_matching_rows_are_not_read(kind: str, beside: bool) -> None:
    table = filled(kind, **INDEXES, **(BESIDE if beside else {"file-index.in-manifest-threshold": "1 mb"}))
    assert all(bool(f.extra_files) is beside is (f.embedded_index is None) for f in files(table))
    for predicate in (Comparison("=", "k", 4), Comparison("=", "s", "19-2"), Comparison("<", "x", 2), IsNull("k")):
        assert contents(table, predicate) == contents(table.with_options(OFF), predicate)
    assert plan_select(table, predicate=Comparison("=", "k", 77)).counts.files == 0
    assert plan_select(table, predicate=Comparison("=", "s", "absent")).counts.files == 0
    assert violations(table) == []


def stored_indexes(table: Table) -> list[bytes]:
    """Return the indexes of all live files."""
    entries = scan(table, table.snapshots.latest()).entries
    places = [table.paths.data_file(e.partition, e.bucket, e.file).rpartition("/")[0] for e in entries]
    beside = [f"{d}/{n}" for d, e in zip(places, entries, strict=True) for n in e.file.extra_files]
    return [e.file.embedded_index or b"" for e in entries] + [table.file_io.read(p) for p in beside]


@pytest.mark.parametrize("kind", KINDS)
def test_indexes_are_rewritten_where_they_differ(kind: str) -> None:
    table = filled(kind, **{"metadata.stats-mode": "none"})
    before = contents(table)
    absent = Comparison("=", "k", 77)
    runner = LocalRunner()
    for options, embedded in (
        (INDEXES | BESIDE, False),
        (INDEXES | {"file-index.bsi.columns": "x"}, None),
        ({}, False),
    ):
        asked = table.with_options(options)
        plan = plan_index_rewrite(asked)
        assert len(plan.tasks) == len(plan.actions) == len(files(table))
        done = execute_index_rewrite(plan, runner)
        assert (done.files, done.partitions, len(done.snapshot_ids)) == (len(files(table)), 1, 1)
        assert contents(table) == before
        assert done.index_bytes == sum(map(len, stored_indexes(table)))
        assert plan_index_rewrite(asked).tasks == ()
        assert (plan_select(asked, predicate=absent).counts.files == 0) is bool(options)
        assert embedded is None or all((f.embedded_index is not None) is embedded for f in files(table))
    assert violations(table) == []
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), 1 << 42))
    assert violations(table) == []
    assert leaked(table) == set()
    assert not [p for p in table.file_io.list_recursive(table.path) if p.name.endswith(".index")]


def test_a_rewrite_keeps_right_indexes_and_what_others_wrote() -> None:
    table = filled("append", **INDEXES, **BESIDE)
    assert plan_index_rewrite(table).tasks == ()
    changed = table.with_options({"file-index.bitmap.columns": "k,id"})
    plan = plan_index_rewrite(changed)
    execute_compaction(plan_compaction(table.with_options({"compaction.min.file-num": "2"})), LocalRunner())
    with pytest.raises(ConflictError):
        execute_index_rewrite(plan, LocalRunner())
    assert leaked(table) == set()
    assert violations(table) == []


def test_an_aborted_rewrite_leaves_the_data_files() -> None:
    table = filled("append", **INDEXES, **BESIDE)
    file = files(table)[0]
    task = plan_index_rewrite(table.with_options({"file-index.bsi.columns": "x"})).tasks[0]
    message = IndexRewriter(table.with_options({"file-index.bsi.columns": "x"})).rewrite(task)
    assert message is not None
    assert leaked(table)
    FileStoreCommit(table).abort([message])
    assert leaked(table) == set()
    assert table.file_io.exists(table.paths.data_file(bytes(12), 0, file))
    assert violations(table) == []


def _broken(table: Table, content: bytes | None) -> None:
    for file in table.file_io.list_recursive(table.path):
        if file.name.endswith(".index"):
            if content is None:
                table.file_io.delete(file.path)
            else:
                table.file_io.write(file.path, content)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda data: None, CorruptTableError, "is missing"),
        (lambda data: b"", CorruptTableError, "it has only 0 bytes"),
        (lambda data: bytes(8) + data[8:], CorruptTableError, "magic number"),
        (lambda data: data[:11] + b"\2" + data[12:], UnsupportedError, "it has the version 2"),
        (lambda data: data[:40], CorruptTableError, "its header is truncated"),
        (lambda data: data[:-200], CorruptTableError, "bytes too early|truncated"),
    ],
)
def test_unreadable_indexes_are_named(change: Any, error: type[Exception], says: str) -> None:
    table = new_table(COLUMNS, options={"file-index.bitmap.columns": "k", "metadata.stats-mode": "none"} | BESIDE)
    write_arrow(table, rows_of(0, 300))
    (index,) = (f.path for f in table.file_io.list_recursive(table.path) if f.name.endswith(".index"))
    _broken(table, change(table.file_io.read(index)))
    with pytest.raises(error, match=says) as e:
        contents(table, Comparison("=", "k", 3))
    assert index.rpartition("/")[2] in str(e.value)
    assert "file-index.read.enabled" in str(e.value)
    assert "rewrite_file_index" in str(e.value)
    if change(b"") is not None:
        assert "'k'" in str(e.value)
    assert contents(table.with_options(OFF), Comparison("=", "k", 3))
    execute_index_rewrite(plan_index_rewrite(table, force=True), LocalRunner())
    assert contents(table, Comparison("=", "k", 3)) == contents(table.with_options(OFF), Comparison("=", "k", 3))


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
@pytest.mark.parametrize(("length", "text", "files"), [(3, "abc", 2), (20, "abcdef", 1)], ids=["shorter", "longer"])
def test_texts_that_are_cut_off_are_not_looked_up(kind: str, length: int, text: str, files: int) -> None:
    options = {f"file-index.{kind}.columns": "s", "metadata.stats-mode": "none"}
    table = new_table({"id": "INT", "s": "VARCHAR(10)"}, options=options)
    write_arrow(table, pa.table({"id": pa.array([1], pa.int32()), "s": ["abcdef"]}))
    write_arrow(table, pa.table({"id": pa.array([2], pa.int32()), "s": ["zzzzzz"]}))
    changes = [UpdateColumnType(("s",), parse_atomic(f"VARCHAR({length})"))]
    table = replace(table, schema=apply_changes(table.schema, changes, 0, has_snapshots=True))
    assert table.schema_store.try_create(table.schema)
    wanted = Comparison("=", "s", text)
    assert read_arrow(table, predicate=wanted).to_pylist() == [{"id": 1, "s": text}]
    assert sum(len(split.files) for split in plan_select(table, predicate=wanted).splits) == files


def test_an_index_of_another_file_is_refused() -> None:
    table = new_table(COLUMNS, options={"file-index.bitmap.columns": "k", "metadata.stats-mode": "none"} | BESIDE)
    write_arrow(table, rows_of(0, 30))
    (index,) = (f.path for f in table.file_io.list_recursive(table.path) if f.name.endswith(".index"))
    other = new_table(COLUMNS, options={"file-index.bitmap.columns": "k"} | BESIDE)
    write_arrow(other, rows_of(0, 31))
    (foreign,) = (f.path for f in other.file_io.list_recursive(other.path) if f.name.endswith(".index"))
    table.file_io.write(index, other.file_io.read(foreign))
    with pytest.raises(CorruptTableError, match="about 31 rows, and the file has 30"):
        contents(table, Comparison("=", "k", 3))


_LEAVES = st.one_of(
    st.builds(Comparison, st.sampled_from(["=", "!=", "<", ">="]), st.just("k"), st.integers(0, 6)),
    st.builds(Comparison, st.sampled_from(["=", "<", ">"]), st.just("x"), st.integers(0, 6)),
    st.builds(Comparison, st.just("="), st.just("id"), st.integers(0, 6)),
    st.builds(InList, st.just("k"), st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(IsNull, st.sampled_from(["k", "x"]), st.booleans()),
)
_PREDICATES = _LEAVES | st.builds(And, st.tuples(_LEAVES, _LEAVES)) | st.builds(Or, st.tuples(_LEAVES, _LEAVES))
_ROWS = st.tuples(st.integers(0, 6), st.none() | st.integers(0, 6), st.none() | st.integers(0, 6))
_ENGINES = (
    {},
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation", "fields.k.aggregate-function": "max", "fields.x.aggregate-function": "sum"},
    {"merge-engine": "first-row"},
    {"deletion-vectors.enabled": "true"},
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    commits=st.lists(st.lists(_ROWS, min_size=1, max_size=6), min_size=1, max_size=4),
    predicate=_PREDICATES,
    engine=st.sampled_from(_ENGINES),
    compacted=st.booleans(),
    embedded=st.booleans(),
)
def test_no_row_of_a_keyed_table_is_lost_or_revived(
    commits: list[list[tuple[int, int | None, int | None]]],
    predicate: Predicate,
    engine: dict[str, str],
    compacted: bool,
    embedded: bool,
) -> None:
    options = {
        "bucket": "1",
        "write-only": "true",
        "metadata.stats-mode": "none",
        "file-index.bitmap.columns": "k,id",
        "file-index.bsi.columns": "x",
        "file-index.in-manifest-threshold": "1 mb" if embedded else "0 b",
    }
    table = new_table({"id": "INT", "k": "INT", "x": "BIGINT"}, primary_key=["id"], options=options | engine)
    for number, commit in enumerate(commits):
        columns = [pa.array([r[i] for r in commit], (pa.int32(), pa.int32(), pa.int64())[i]) for i in range(3)]
        write_arrow(table, pa.table(columns, names=["id", "k", "x"]))
        if compacted and number == 1:
            execute_compaction(plan_compaction(table), LocalRunner())
    assert contents(table, predicate) == contents(table.with_options(OFF), predicate)


def test_only_row_groups_with_selected_rows_are_decoded() -> None:
    options = {"file-index.bitmap.columns": "k", "parquet.block.size": "64 kb", "metadata.stats-mode": "none"}
    table = new_table({"k": "INT", "x": "BIGINT"}, options=options | BESIDE)
    numbers = [77 if i == 145_000 else i * 13 % 200 * 2 for i in range(200_000)]
    write_arrow(table, pa.table({"k": pa.array(numbers, pa.int32()), "x": pa.array(range(200_000), pa.int64())}))
    (file,) = files(table)
    reader = BucketFiles(table, EMPTY_ROW, 0)
    rows = sum(c.num_rows for c in reader.chunks(file, table.schema.fields, Comparison("=", "k", 77)))
    assert 0 < rows < 100_000
    assert contents(table, Comparison("=", "k", 77)) == [{"k": 77, "x": 145_000}]
    without = BucketFiles(table.with_options(OFF), EMPTY_ROW, 0)
    assert sum(c.num_rows for c in without.chunks(file, table.schema.fields, Comparison("=", "k", 77))) == 200_000


def test_postponed_files_and_changelogs_have_no_indexes() -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "file-index.bitmap.columns": "k"} | BESIDE
    table = new_table(COLUMNS, primary_key=["id"], options=options)
    write_arrow(table, rows_of(0))
    assert not [f for f in table.file_io.list_recursive(table.path) if f.name.endswith(".index")]
    table = new_table(COLUMNS, primary_key=["id"], options=INDEXES | BESIDE | {"changelog-producer": "input"})
    write_arrow(table, rows_of(0))
    names = [f.name for f in table.file_io.list_recursive(table.path) if f.name.endswith(".index")]
    assert len(names) == len(files(table))
    assert all(n.startswith("data-") for n in names)


def test_earlier_snapshots_keep_their_indexes() -> None:
    lake = Lake(COLUMNS, file_index__bitmap__columns="k", file_index__in_manifest_threshold="0 b")
    for file in range(2):
        write_arrow(lake.table, rows_of(file))
    lake.call("create_tag('t', 'before')")
    asked = lake.table.with_options({"file-index.bsi.columns": "x"})
    execute_index_rewrite(plan_index_rewrite(asked), LocalRunner())
    lake.call("expire_snapshots('t', 1)")
    lake.call("remove_orphan_files('t', '2099-12-31 00:00:00')")
    assert violations(lake.table) == []
    assert plan_select(lake.table, predicate=Comparison("=", "k", 77), version="before").counts.files == 0
    lake.call("rollback_to(table => 't', tag => 'before', trash => false)")
    lake.call("remove_orphan_files('t', '2099-12-31 00:00:00')")
    assert violations(lake.table) == []
    assert leaked(lake.table) == set()
    assert plan_select(lake.table, predicate=Comparison("=", "k", 77)).counts.files == 0

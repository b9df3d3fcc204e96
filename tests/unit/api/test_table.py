from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    OptionError,
    PaimonError,
    UnsupportedError,
    UsageError,
)

SCHEMA = pa.schema([("k", pa.int32()), ("p", pa.string()), ("v", pa.float64())])


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


def rows(*items: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, i, strict=True)) for i in items], SCHEMA)


def found(table: TableHandle, **how: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in table.to_arrow(**how).to_pylist())


KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"primary_key": ["k"], "options": {"bucket": "2"}},
    "dynamic": {"primary_key": ["k"]},
    "partitioned": {"primary_key": ["k", "p"], "partition_by": ["p"], "options": {"bucket": "1", "file.format": "orc"}},
    "append": {},
    "bucketed append": {"options": {"bucket": "2", "bucket-key": "k"}, "partition_by": ["p"]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_go_in_and_out_of_every_kind_of_table(catalog: CatalogHandle, kind: str) -> None:
    table = catalog.create_table("t", SCHEMA, **KINDS[kind])
    assert found(table) == []
    done = table.append(rows((1, "a", 1.5), (2, "b", None), (3, "a", 3.0)))
    assert (done.rows, done.snapshot_id) == (3, 1)
    assert found(table, columns=["k"]) == [(1,), (2,), (3,)]
    assert found(table, filter="p = 'a' and v > 2") == [(3, "a", 3.0)]
    deleted = table.delete("k >= 2 AND p = 'a'")
    assert deleted.rows == 1
    assert table.delete("k = 99").snapshot_id is None
    assert found(table, columns=["k"]) == [(1,), (2,)]
    assert sorted(table.to_arrow(version=1).column("k").to_pylist()) == [1, 2, 3]
    assert table.count() == 2
    assert table.count("k = 1") == 1
    assert pa.table(table).num_rows == 2
    assert sum(b.num_rows for b in table.to_reader(limit=1)) == 1
    table.overwrite(rows((9, "c", 0.0)))
    assert found(table) == [(9, "c", 0.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_columns_are_counted(catalog: CatalogHandle, kind: str) -> None:
    table = catalog.create_table("t", SCHEMA, **KINDS[kind])
    assert table.to_arrow(columns=[]).num_rows == 0
    table.append(rows((1, "a", 1.5), (2, "b", None), (3, "a", 3.0)))
    for how, count in ({}, 3), ({"filter": "k > 1"}, 2), ({"limit": 1}, 1):
        read = table.to_arrow(columns=[], **how)
        assert (read.num_columns, read.num_rows) == (0, count)
        assert table.to_reader(columns=[], **how).read_all().num_rows == count


@pytest.mark.parametrize("kind", ["fixed", "dynamic", "partitioned"])
def test_upserts_replace_and_keys_delete(catalog: CatalogHandle, kind: str) -> None:
    table = catalog.create_table("t", SCHEMA, **KINDS[kind])
    table.upsert(rows((1, "a", 1.0), (2, "a", 2.0)))
    assert table.upsert(rows((1, "a", 8.0), (1, "a", 9.0))).rows == 2
    assert found(table) == [(1, "a", 9.0), (2, "a", 2.0)]
    keys = rows((2, "a", None)).select(list(table.primary_key))
    assert table.delete(keys=keys).rows == 1
    assert found(table) == [(1, "a", 9.0)]


def test_a_deletion_by_key_needs_the_value_of_the_sequence_field(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"], options={"bucket": "1", "sequence.field": "v"})
    table.upsert(rows((1, "a", 5.0)))
    with pytest.raises(ArgumentError, match="lack the column 'v'") as e:
        table.delete(keys=pa.table({"k": pa.array([1], pa.int32())}))
    assert "a row with a later value stays" in str(e.value.hint)
    table.delete(keys=pa.table({"k": pa.array([1], pa.int32()), "v": [4.0]}))
    assert found(table) == [(1, "a", 5.0)]
    table.delete(keys=pa.table({"k": pa.array([1], pa.int32()), "v": [5.0]}))
    assert found(table) == []
    table.upsert(rows((1, "a", 6.0)))
    table.delete("k = 1")
    assert found(table) == []


def test_whatever_speaks_arrow_can_be_written(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA)
    data = rows((1, "a", 1.0))

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return data.__arrow_c_stream__(requested_schema)

    class Array:
        def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
            return data.to_batches()[0].__arrow_c_array__(requested_schema)

    batches = data.to_batches()
    given: list[Any] = [data, batches[0], batches * 2, tuple(batches), data.to_reader(), Stream(), Array()]
    counts = [table.append(g).rows for g in given]
    assert counts == [1, 1, 2, 1, 1, 1, 1]
    assert table.count() == 8
    for other in ({"k": [1]}, [{"k": 1}], 5, "x", []):
        with pytest.raises(ArgumentError, match="not Arrow data"):
            table.append(other)  # type: ignore[arg-type]
    for tables, how in (([data], r"pa\.concat_tables"), (iter(batches), r"RecordBatchReader\.from_batches")):
        with pytest.raises(ArgumentError, match=how):
            table.append(tables)  # type: ignore[arg-type]
    assert [s.kind for s in table.snapshots()].count("APPEND") == 7


def test_types_of_one_family_are_taken_if_the_values_fit(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA)
    wide = pa.table({"v": pa.array([1], pa.int64()), "p": pa.array(["a"]).dictionary_encode(), "k": pa.array([7])})
    table.append(wide)
    table.append(pa.table({"k": [8], "p": pa.nulls(1), "v": pa.nulls(1)}))
    assert found(table) == [(7, "a", 1.0), (8, None, None)]
    with pytest.raises(ArgumentError, match="do not fit its type INT") as e:
        table.append(pa.table({"k": [1 << 40], "p": ["a"], "v": [1.0]}))
    assert e.value.kind is ErrorKind.TYPE_MISMATCH
    assert table.count() == 2


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda t: t.drop_columns(["v"]), ErrorKind.COLUMN_NOT_FOUND, "lack the column 'v'"),
        (lambda t: t.rename_columns(["k", "P", "v"]), ErrorKind.COLUMN_NOT_FOUND, "Did you mean 'p'"),
        (lambda t: t.append_column(ROW_KIND, pa.array([3], pa.int8())), ErrorKind.COLUMN_NOT_FOUND, ROW_KIND),
        (lambda t: t.append_column("v", t.column("v")), ErrorKind.INVALID_ARGUMENT, "more than once"),
        (lambda t: t.set_column(0, "k", pa.array(["1"])), ErrorKind.TYPE_MISMATCH, "'k'.* is INT.*string"),
        (lambda t: t.set_column(0, "k", pa.array([1.0])), ErrorKind.TYPE_MISMATCH, "double"),
        (lambda t: t.set_column(1, "p", pa.array([1])), ErrorKind.TYPE_MISMATCH, "int64"),
        (lambda t: t.set_column(2, "v", pa.array([True])), ErrorKind.TYPE_MISMATCH, "bool"),
        (lambda t: t.set_column(2, "v", pa.array([[1.0]])), ErrorKind.TYPE_MISMATCH, "list"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_writing(
    catalog: CatalogHandle, change: Any, kind: ErrorKind, message: str
) -> None:
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(ArgumentError, match=message) as e:
        table.append(change(rows((1, "a", 1.0))))
    assert e.value.kind is kind
    assert e.value.hint
    assert table.snapshots() == []
    assert [f.name for f in Path(table.location).iterdir()] == ["schema"]


def test_nested_types_are_compared_part_by_part(catalog: CatalogHandle) -> None:
    nested = pa.schema(
        [("k", pa.int32()), ("s", pa.struct([("a", pa.list_(pa.int32()))])), ("m", pa.map_("string", "int32"))]
    )
    table = catalog.create_table("t", nested)
    good = pa.table({"k": [1], "s": [{"a": [1]}], "m": pa.array([[("x", 1)]], pa.map_("string", "int64"))})
    table.append(good)
    assert table.to_arrow().to_pylist() == [{"k": 1, "s": {"a": [1]}, "m": [("x", 1)]}]
    for bad in ([{"a": ["1"]}], [{"b": [1]}], [1]):
        with pytest.raises(ArgumentError, match="'s'"):
            table.append(good.set_column(1, "s", pa.array(bad)))


def test_nulls_and_failing_streams_leave_nothing_behind(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"], options={"bucket": "1"})
    with pytest.raises(ArgumentError, match="NOT NULL"):
        table.append(rows((None, "a", 1.0)))

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows((1, "a", 1.0)).to_batches()
        raise ValueError("the source broke")

    with pytest.raises(ArgumentError, match=r"The stream of rows failed: the source broke\. Nothing was written"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, broken()))
    assert table.snapshots() == []
    assert not list(Path(table.location).glob("bucket-*/*"))


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_stream_of_rows_stays_one(catalog: CatalogHandle, ending: type[BaseException]) -> None:
    table = catalog.create_table("t", SCHEMA)

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from rows((1, "a", 1.0)).to_batches()
        raise ending

    with pytest.raises(ending):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, interrupted()))
    assert table.snapshots() == []
    assert not list(Path(table.location).glob("bucket-*/*"))


def test_wrong_uses_are_told(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(UsageError, match="no primary key"):
        table.upsert(rows((1, "a", 1.0)))
    with pytest.raises(UsageError, match="no primary key"):
        table.delete(keys=rows((1, "a", 1.0)))
    with pytest.raises(ArgumentError, match="a condition or keys"):
        table.delete()
    with pytest.raises(ArgumentError, match="exclude"):
        table.overwrite(rows(), partitions="p = 'a'", dynamic=True)
    with pytest.raises(NotFoundError, match="'kk'") as e:
        table.to_arrow(filter="kk = 1")
    assert e.value.kind is ErrorKind.COLUMN_NOT_FOUND
    for condition in ("k +", "k = v", "abs(k) = 1", "k = 'x'"):
        with pytest.raises(ArgumentError, match="'filter'"):
            table.to_arrow(filter=condition)
    with pytest.raises(NotFoundError, match="Snapshot 7"):
        table.to_arrow(version=7)
    with pytest.raises(ArgumentError, match="exclude"):
        table.to_arrow(version=1, as_of=dt.datetime(2026, 1, 1))


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_a_delete_deletes_where_delete_rows_are_ignored(catalog: CatalogHandle, engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine, "ignore-delete": "true"}
    table = catalog.create_table("i", SCHEMA, primary_key=["k"], options=options)
    for _ in range(2):
        table.append(rows((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)))
        table.compact()
    table.delete("k = 1")
    table.delete(keys=pa.table({"k": pa.array([3], SCHEMA.field("k").type)}))
    assert found(table, columns=["k"]) == [(2,)]
    table.append(rows((1, "new", 5.0)))
    table.compact()
    assert found(table, columns=["k", "p"]) == [(1, "new"), (2, "b")]


def test_tables_that_spell_out_kinds_refuse_deletes(catalog: CatalogHandle) -> None:
    kinds = catalog.create_table("r", SCHEMA, primary_key=["k"], options={"bucket": "1", "rowkind.field": "p"})
    kinds.append(rows((1, "+I", 1.0)))
    with pytest.raises(UnsupportedError, match="'p'"):
        kinds.delete("k = 1")
    kinds.append(rows((1, "-D", 1.0)))
    assert found(kinds) == []


def test_partitions_are_overwritten_one_by_one(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA, partition_by=["p"])
    table.append(rows((1, "a", 1.0), (2, "b", 2.0)))
    table.overwrite(rows((3, "a", 3.0)), dynamic=True)
    assert found(table, columns=["k"]) == [(2,), (3,)]
    table.overwrite(rows((4, "b", 4.0)), partitions="p = 'b'")
    assert found(table, columns=["k"]) == [(3,), (4,)]
    with pytest.raises(ArgumentError, match="p=a"):
        table.overwrite(rows((5, "a", 5.0)), partitions="p = 'b'")
    assert found(table, columns=["k"]) == [(3,), (4,)]


def test_history_tags_rollback_and_expiry(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for n in range(4):
        table.upsert(rows((n, "a", 1.0)))
    assert table.create_tag("two", 2) == 2
    assert table.tags() == {"two": 2}
    done = table.compact()
    assert (done.snapshot_id, done.files_in, done.files_out) == (5, 4, 1)
    assert table.compact().snapshot_id is None
    assert [s.kind for s in table.snapshots()] == ["APPEND"] * 4 + ["COMPACT"]
    assert all(s.time.tzinfo is dt.UTC for s in table.snapshots())
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshots == 4
    assert found(table, columns=["k"], version="two") == [(0,), (1,)]
    with pytest.raises(NotFoundError, match="Snapshot 1"):
        table.to_arrow(version=1)
    assert table.rollback_to("two") == 2
    assert found(table, columns=["k"]) == [(0,), (1,)]
    table.upsert(rows((9, "a", 1.0)))
    assert table.rollback_to(2) == 2
    table.delete_tag("two")
    assert table.tags() == {}
    with pytest.raises(NotFoundError, match="Tag 'two'"):
        table.delete_tag("two")
    before = table.snapshots()[-1].time
    assert found(table, columns=["k"], as_of=before) == [(0,), (1,)]
    assert table.inspect("snapshots").num_rows == 1


def test_the_catalog_lists_creates_renames_and_drops(catalog: CatalogHandle) -> None:
    catalog.create_database("db")
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("db")
    catalog.create_database("db", ignore_if_exists=True)
    assert catalog.list_databases() == ["db", "default"]
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], comment="of things")
    assert (table.name, table.primary_key, table.partition_by) == ("db.t", ("k",), ())
    assert table.schema == SCHEMA.set(0, pa.field("k", pa.int32(), nullable=False))
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("db.t", SCHEMA)
    catalog.create_table("db.t", SCHEMA, ignore_if_exists=True)
    with pytest.raises(NotFoundError, match="Did you mean 't'"):
        catalog.table("db.tt")
    with pytest.raises(ArgumentError, match="inspect"):
        catalog.table("db.t$files")
    with pytest.raises(ArgumentError, match="is a system table") as caught:
        catalog.table("db.t$audit_log")
    assert "SQL in Spark" in str(caught.value)
    with pytest.raises(NotFoundError, match=r"no system table \$nope"):
        catalog.table("db.t$nope")
    with pytest.raises(PaimonError, match="bucket"):
        catalog.table("db.t", {"bucket": "7"})
    with pytest.raises(ArgumentError, match="not an Arrow schema"):
        catalog.create_table("db.x", ["k"])
    catalog.rename_table("db.t", "db.u")
    assert (catalog.list_tables("db"), catalog.table_exists("db.t")) == (["u"], False)
    catalog.drop_table("db.u")
    catalog.drop_table("db.u", ignore_if_not_exists=True)
    catalog.drop_database("db")
    assert catalog.list_tables() == []


NAMELESS = pa.struct([("a", pa.int32()), ("", pa.int32())])


@pytest.mark.parametrize("t", [NAMELESS, pa.list_(NAMELESS), pa.map_(pa.string(), NAMELESS)], ids=str)
def test_members_without_a_name_are_refused(catalog: CatalogHandle, t: pa.DataType) -> None:
    with pytest.raises(UsageError, match="A member of the column 's' has no name") as e:
        catalog.create_table("t", pa.schema([("s", t)]))
    assert e.value.kind is ErrorKind.SCHEMA_INVALID
    assert catalog.list_tables() == []


@pytest.mark.parametrize("t", [pa.struct([]), pa.list_(pa.struct([])), pa.map_("string", pa.struct([]))], ids=str)
def test_structs_without_members_are_refused(catalog: CatalogHandle, t: pa.DataType) -> None:
    with pytest.raises(UsageError, match=r"The column 's' has a ROW \(struct\) without members") as e:
        catalog.create_table("t", pa.schema([("s", t), ("k", pa.int32())]))
    assert e.value.kind is ErrorKind.SCHEMA_INVALID
    assert catalog.list_tables() == []


def test_columns_without_a_name_are_refused(catalog: CatalogHandle) -> None:
    with pytest.raises(UsageError, match=r"A column has no name\. Give every column a name") as e:
        catalog.create_table("t", pa.schema([("a", pa.int32()), ("", pa.int32())]))
    assert e.value.kind is ErrorKind.SCHEMA_INVALID


def test_writers_in_each_others_way_start_again_by_themselves(catalog: CatalogHandle) -> None:
    """Dynamic buckets: a writer that saw an older hash index must not commit, so it writes anew."""
    table = catalog.create_table("t", SCHEMA, primary_key=["k"])
    errors: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            for n in range(5):
                table.upsert(rows((writer * 10 + n, "a", 1.0), (1000, "shared", float(writer))))
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(w,)) for w in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert found(table, columns=["k"]) == sorted([(w * 10 + n,) for w in range(4) for n in range(5)] + [(1000,)])


def test_a_stream_in_the_way_of_another_write_is_not_repeated(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"])
    table.upsert(rows((1, "a", 1.0)))

    def interrupted() -> Iterator[pa.RecordBatch]:
        table.upsert(rows((2, "b", 2.0)))
        yield from rows((3, "c", 3.0)).to_batches()

    with pytest.raises(ConflictError):
        table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, interrupted()))
    assert found(table, columns=["k"]) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("scan.snapshotid", "1", "Did you mean 'scan.snapshot-id'"),
        ("header", "1", "no table option 'header'"),
        ("bucket", "7", "ALTER TABLE"),
        ("write-buffer-size", "much", "write-buffer-size"),
        ("zorder.var-length-contribution", "4", "does not apply to a table handle"),
        ("sink.parallelism", "4", "tasks of a Spark job"),
        ("sink.use-managed-memory-allocator", "true", "tasks of a Spark job"),
        ("write.merge-schema", "true", "tasks of a Spark job"),
        ("write.merge-schema.type-widening", "true", "tasks of a Spark job"),
        ("write.local-max-rows", "9", "tasks of a Spark job"),
        ("lookup.async", "true", "has no effect on Spark"),
        ("scan.fallback-delta-branch", "b", "cannot be set for one statement"),
        ("query-auth.enabled", "true", "this release does not implement it"),
        ("cache-page-size", "8 kb", "it has no effect here"),
        ("warehouse", "/elsewhere", "one of the catalog"),
        ("record-level.expire-time", "1 h", "needs a primary key"),
        ("fields.zz.stats-mode", "none", "The column 'zz'"),
    ],
)
def test_options_that_nobody_would_obey_are_refused(catalog: CatalogHandle, option: str, value: str, says: str) -> None:
    catalog.create_table("t", SCHEMA, options={"bucket": "2", "bucket-key": "k"})
    with pytest.raises(PaimonError) as e:
        catalog.table("t", {option: value})
    assert says in f"{e.value.message} {e.value.hint}"


def test_options_without_a_name_are_refused(catalog: CatalogHandle) -> None:
    with pytest.raises(OptionError, match="An option has no name"):
        catalog.create_table("t", SCHEMA, options={"": "x"})
    assert catalog.list_tables() == []


def test_what_a_table_has_stored_may_be_repeated(catalog: CatalogHandle) -> None:
    stored = {"bucket": "2", "bucket-key": "k", "cache-page-size": "8 kb", "sink.parallelism": "3"}
    catalog.create_table("t", SCHEMA, options=stored)
    table = catalog.table("t", stored)
    table.append(rows((1, "a", 1.0)))
    assert table.count() == 1


@pytest.mark.parametrize("key", [["k"], []])
def test_a_handle_on_the_past_changes_nothing(catalog: CatalogHandle, key: list[str]) -> None:
    now = catalog.create_table("t", SCHEMA, primary_key=key)
    now.append(rows((1, "a", 1.0)))
    now.append(rows((2, "b", 2.0)))
    now.create_tag("kept", 1)
    past = catalog.table("t", {"scan.snapshot-id": "1"})
    assert past.to_arrow()["k"].to_pylist() == [1]
    changes: list[Callable[[], object]] = [
        lambda: past.append(rows((3, "c", 3.0))),
        lambda: past.overwrite(rows((3, "c", 3.0))),
        lambda: past.delete("k = 1"),
        lambda: past.compact(),
        lambda: past.create_tag("x"),
        lambda: past.delete_tag("kept"),
        lambda: past.rollback_to(1),
        lambda: past.expire_snapshots(retain_max=1, retain_min=1),
        lambda: past.remove_orphan_files(older_than=dt.datetime(2020, 1, 1)),
    ]
    if key:
        changes += [lambda: past.upsert(rows((1, "z", 0.0))), lambda: past.delete(keys=rows((1, "a", 1.0)))]
    for change in changes:
        with pytest.raises(UsageError, match=r"scan\.snapshot-id"):
            change()
    assert [s.id for s in now.snapshots()] == [1, 2]
    assert now.tags() == {"kept": 1}


def test_hints_about_what_exists_are_about_python(catalog: CatalogHandle) -> None:
    catalog.create_table("t", SCHEMA)
    catalog.create_table("u", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="ignore_if_exists=True"):
        catalog.create_table("t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="ignore_if_exists=True"):
        catalog.create_database("default")
    with pytest.raises(AlreadyExistsError, match=r"\. Choose another name\."):
        catalog.rename_table("t", "u")
    with pytest.raises(
        ArgumentError, match=r"retain_max is 0, but the latest snapshot is always kept\. Give 1 or more"
    ):
        catalog.table("t").expire_snapshots(retain_max=0)

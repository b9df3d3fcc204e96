"""Inserts by `upsert-key` in this process."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import connect
from paimon_spark.api.table import TableHandle
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.sink import StreamBatch, begin_batch
from paimon_spark.engine.upsert import finish_upsert, plan_upsert, stored_splits, write_upsert
from paimon_spark.errors import ConflictError, ErrorKind, UnsupportedError, UsageError
from paimon_spark.spec.column_changes import UpdateColumnDefault
from paimon_spark.spec.kinds import Operation

SCHEMA = pa.schema([("k", pa.int32()), ("j", pa.string()), ("s", pa.int64()), ("v", pa.string())])
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "tracked": {"row-tracking.enabled": "true"},
    "evolving": EVOLVING,
    "evolving with vectors": {**EVOLVING, "deletion-vectors.enabled": "true"},
    "buckets of the key": {"bucket": "2", "bucket-key": "k"},
    "other buckets": {"bucket": "3", "bucket-key": "v"},
    "other buckets with vectors": {"bucket": "3", "bucket-key": "v", "deletion-vectors.enabled": "true"},
    "orc": {"file.format": "orc"},
    "partitions": {"partition": "v"},
}
Row = tuple[Any, ...]
every_kind = pytest.mark.parametrize("kind", KINDS)


def create(place: Path, options: dict[str, str], schema: pa.Schema = SCHEMA, key: str = "k,j") -> TableHandle:
    catalog = connect(place)
    catalog.create_database("db", ignore_if_exists=True)
    partitions = [p for p in options.get("partition", "").split(",") if p]
    given = {k: v for k, v in options.items() if k != "partition"}
    return catalog.create_table("db.t", schema, partition_by=partitions, options={"upsert-key": key, **given})


def rows_of(table: TableHandle, *rows: Row) -> pa.Table:
    schema = table.schema
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def put(table: TableHandle, *rows: Row) -> None:
    table.append(rows_of(table, *rows))


def found(table: TableHandle) -> list[Row]:
    return sorted((tuple(r.values()) for r in table.to_arrow().to_pylist()), key=repr)


@every_kind
def test_a_row_replaces_those_with_its_key(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path, KINDS[kind])
    put(table, (1, "a", 1, "p"), (None, None, 2, "q"), (1, None, 3, "r"))
    put(table, (None, None, 4, "Q"), (1, "a", 0, "P"), (2, "a", 5, "s"))
    put(table, (2, "a", 6, "p"))
    assert found(table) == [(1, "a", 0, "P"), (1, None, 3, "r"), (2, "a", 6, "p"), (None, None, 4, "Q")]
    assert Operation.MERGE in {s.operation for s in table.snapshots()}


@every_kind
def test_the_largest_sequence_remains(tmp_path: Path, kind: str) -> None:
    """The example of Paimon's guide, and rows that come late."""
    schema = pa.schema(
        [("k1", pa.int32()), ("k2", pa.int32()), ("ts1", pa.int32()), ("ts2", pa.int32()), SCHEMA.field("v")]
    )
    given = {k: v.replace("k", "k1") if k == "bucket-key" else v for k, v in KINDS[kind].items()}
    table = create(tmp_path, {**given, "sequence.field": "ts1,ts2"}, schema, "k1,k2")
    first = [
        (None, None, 2, 1, "v1"),
        (None, None, 2, 2, "v4"),
        (1, None, 1, 1, "v1"),
        (1, 2, 1, 1, "v1"),
        (1, 2, 2, 1, "v2"),
    ]
    put(table, *first)
    assert found(table) == [(1, 2, 2, 1, "v2"), (1, None, 1, 1, "v1"), (None, None, 2, 2, "v4")]
    put(
        table,
        (None, None, 2, 1, "v5"),
        (None, 1, 1, 1, "v1"),
        (1, None, 2, 1, "v2"),
        (1, 1, 1, 1, "v1"),
        (1, 2, 2, 0, "v3"),
    )
    rows = [
        (1, 1, 1, 1, "v1"),
        (1, 2, 2, 1, "v2"),
        (1, None, 2, 1, "v2"),
        (None, 1, 1, 1, "v1"),
        (None, None, 2, 2, "v4"),
    ]
    assert found(table) == rows
    put(table, *first)
    assert found(table) == rows


def test_the_example_of_the_rule(tmp_path: Path) -> None:
    """The example for D8 in docs/spec/semantics.md."""
    table = create(tmp_path, {"sequence.field": "s"}, key="k")
    put(table, (None, None, 2, "a"))
    put(table, (None, None, 1, "b"), (None, None, 3, "c"), (7, None, None, "d"))
    assert found(table) == [(7, None, None, "d"), (None, None, 3, "c")]
    put(table, (7, None, 0, "e"), (None, None, 2, "f"))
    assert found(table) == [(7, None, 0, "e"), (None, None, 3, "c")]


def test_sequences_are_compared_field_by_field_with_nulls_first(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int32()), ("a", pa.int32()), ("b", pa.string()), ("v", pa.string())])
    table = create(tmp_path, {"sequence.field": "a,b"}, schema, "k")
    put(table, (1, 1, "z", "old"), (2, None, None, "old"), (3, 5, "x", "old"), (4, 1, "x", "old"))
    put(table, (1, 2, "a", "new"), (2, None, "a", "new"), (3, None, "z", "new"), (4, 1, "x", "new"))
    assert found(table) == [(1, 2, "a", "new"), (2, None, "a", "new"), (3, 5, "x", "old"), (4, 1, "x", "new")]


def test_of_equal_sequences_the_largest_row_remains(tmp_path: Path) -> None:
    table = create(tmp_path, {"sequence.field": "s"}, key="k")
    for rows in ([(1, "a", 1, "y"), (1, "b", 1, "x"), (1, None, 1, "z")], [(1, "b", 1, "x"), (1, "a", 1, "y")]):
        put(table, *rows)
        assert found(table) == [(1, "b", 1, "x")]


@every_kind
def test_several_new_rows_of_a_key(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path, KINDS[kind])
    put(table, (1, "a", 1, "p"), (1, "a", 2, "q"), (2, "a", 1, "r"))
    assert len(found(table)) == 3
    before = [s.id for s in table.snapshots()]
    with pytest.raises(UsageError, match=r"Several of the new rows.*'upsert-key' is k,j.*sequence.field") as e:
        put(table, (1, "a", 3, "p"), (1, "a", 4, "q"))
    assert e.value.kind is ErrorKind.MERGE_CARDINALITY_VIOLATION
    assert [s.id for s in table.snapshots()] == before
    put(table, (1, "a", 5, "p"), (3, "a", 1, "x"), (3, "a", 1, "y"))
    assert [r[0] for r in found(table)] == [1, 1, 2, 3, 3]
    assert found(table)[:2] == [(1, "a", 5, "p")] * 2


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "double": (pa.float64(), [1.5, -0.0, math.nan, math.inf, None]),
    "decimal": (pa.decimal128(30, 2), [Decimal("123456789012345678901234.56"), Decimal("-1.00"), None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"x" * 300, None]),
    "string": (pa.string(), ["", "ä", "a\0", "b" * 300, None]),
    "date": (pa.date32(), [date(1, 1, 1), date(2026, 1, 1), None]),
    "nanoseconds": (pa.timestamp("ns"), [1, 2, 1 << 60, None]),
}


@pytest.mark.parametrize("name", VALUES)
def test_keys_of_all_types(tmp_path: Path, name: str) -> None:
    of, values = VALUES[name]
    table = create(tmp_path, {}, pa.schema([("k", of), ("n", pa.int32())]), "k")
    for n in range(2):
        table.append(pa.table([pa.array(values, of), pa.array([n] * len(values), pa.int32())], schema=table.schema))
    assert [r["n"] for r in table.to_arrow(columns="n").to_pylist()] == [1] * len(values)


def test_zeros_and_nans_are_equal(tmp_path: Path) -> None:
    table = create(tmp_path, {}, pa.schema([("k", pa.float32()), ("n", pa.int32())]), "k")
    for value in (0.0, -0.0, math.nan, -math.nan):
        put(table, (value, 1))
    assert table.count() == 2


def test_a_default_is_a_value_of_the_key(tmp_path: Path) -> None:
    table = create(tmp_path, {}, key="k")
    table._catalog.alter_table(table._identifier, [UpdateColumnDefault(("k",), "5")])
    put(table, (5, None, 1, "a"))
    put(table, (None, None, 2, "b"))
    assert found(table) == [(5, None, 2, "b")]


def test_ids_of_rows_stay(tmp_path: Path) -> None:
    table = create(tmp_path, {"row-tracking.enabled": "true"}, key="k")
    put(table, (1, "a", 1, "x"), (2, "a", 1, "x"))
    put(table, (2, "b", 1, "y"), (3, "b", 1, "y"))
    splits = stored_splits(table.load(), table.snapshots()[-1].id)
    batches = [b for s in splits for b in read_split(table.load(), s, ["k"], metadata_columns=["_ROW_ID"])]
    rows = [tuple(r.values()) for b in batches for r in b.to_pylist()]
    assert sorted(rows) == [(1, 0), (2, 1), (3, 2)]


def test_an_overwrite_takes_all_rows(tmp_path: Path) -> None:
    table = create(tmp_path, {"sequence.field": "s"}, key="k")
    put(table, (1, "a", 1, "x"))
    table.overwrite(rows_of(table, (2, "a", 1, "x"), (2, "a", 2, "y")))
    assert found(table) == [(2, "a", 1, "x"), (2, "a", 2, "y")]


def test_no_rows_change_nothing(tmp_path: Path) -> None:
    table = create(tmp_path, {"sequence.field": "s"}, key="k")
    put(table)
    assert not table.snapshots()
    put(table, (1, "a", 5, "x"))
    put(table, (1, "a", 4, "y"))
    assert len(table.snapshots()) == 1


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolving"])
def test_rows_that_changed_meanwhile(tmp_path: Path, kind: str) -> None:
    handle = create(tmp_path, KINDS[kind])
    put(handle, *((k, "a", 1, "x") for k in range(4)))
    table = handle.load()
    plan = plan_upsert(table)
    messages = write_upsert(plan, [rows_of(handle, (1, "a", 2, "y"))], stored_splits(table, plan.snapshot_id))
    put(handle, (1, "a", 3, "z"))
    with pytest.raises(ConflictError):
        finish_upsert(plan, messages, LocalRunner())
    assert len(found(handle)) == 4
    assert (1, "a", 3, "z") in found(handle)


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolving"])
def test_a_batch_of_a_stream_is_recognized(tmp_path: Path, kind: str) -> None:
    handle = create(tmp_path, KINDS[kind])
    put(handle, (1, "a", 1, "x"))
    table, batch = handle.load(), StreamBatch("query", 0, "digest")
    plan = plan_upsert(table, batch=begin_batch(table, batch))
    messages = write_upsert(plan, [rows_of(handle, (1, "a", 2, "y"))], stored_splits(table, plan.snapshot_id))
    finish_upsert(plan, messages, LocalRunner())
    assert begin_batch(table, batch) is None
    assert found(handle) == [(1, "a", 2, "y")]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sequence.field": "s", "sequence.field.sort-order": "descending"}, "sort-order"),
        ({"rowkind.field": "v"}, "rowkind.field"),
        ({**EVOLVING, "partition": "v"}, "data-evolution"),
    ],
)
def test_what_an_upsert_would_get_wrong_is_refused(tmp_path: Path, options: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'upsert-key'.*{named}.*cannot be created"):
        create(tmp_path, options, key="k")


def test_only_a_table_without_primary_key_has_it(tmp_path: Path) -> None:
    table = create(tmp_path, {}, key="k")
    with pytest.raises(UsageError, match=r"no primary key.*append"):
        table.upsert(rows_of(table, (1, "a", 1, "x")))
    write_arrow(table.load(), rows_of(table, (1, "a", 1, "x")))
    assert table.count() == 1

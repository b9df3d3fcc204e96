"""Deletes of rows whose removal depends on the sequence of a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.errors import UnsupportedError

SCHEMA = pa.schema({"k": pa.int32(), "g": pa.int32(), "a": pa.int32(), "h": pa.int32(), "m": pa.int32()})
REMOVING = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a",
    "fields.h.sequence-group": "m",
    "partial-update.remove-record-on-sequence-group": "g",
}


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


def made(catalog: CatalogHandle, **options: str) -> TableHandle:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"], options=REMOVING | options)
    table.upsert(rows((1, None, None, 1, 5), (2, 1, 1, 1, 6), (3, 1, 1, None, None), (4, 2, 1, 2, 1)))
    return table


def rows(*items: tuple[Any, ...], columns: tuple[str, ...] = ("k", "g", "a", "h", "m")) -> pa.Table:
    schema = pa.schema([SCHEMA.field(c) for c in columns])
    return pa.Table.from_pylist([dict(zip(columns, i, strict=True)) for i in items], schema)


def keys_left(table: TableHandle) -> list[int]:
    left = sorted(table.to_arrow("k").column("k").to_pylist())
    table.compact()
    assert sorted(table.to_arrow("k").column("k").to_pylist()) == left
    return left


@pytest.mark.parametrize("options", [{}, {"fields.m.aggregate-function": "max"}], ids=["plain", "max"])
def test_rows_without_the_removing_sequence_are_deleted(catalog: CatalogHandle, options: dict[str, str]) -> None:
    table = made(catalog, **options)
    assert table.delete("k = 1").rows == 1
    assert keys_left(table) == [2, 3, 4]
    assert table.delete("m = 6 OR k = 3").rows == 2
    assert keys_left(table) == [4]


@pytest.mark.parametrize("options", [{}, {"fields.m.aggregate-function": "max"}], ids=["plain", "max"])
def test_rows_are_deleted_by_key_alone(catalog: CatalogHandle, options: dict[str, str]) -> None:
    table = made(catalog, **options)
    assert table.delete(keys=rows((1,), (2,), (9,), columns=("k",))).rows == 2
    assert keys_left(table) == [3, 4]


def test_keys_with_a_sequence_delete_the_rows_that_are_not_newer(catalog: CatalogHandle) -> None:
    table = made(catalog)
    table.delete(keys=rows((2, 1), (3, 2), (4, 1), columns=("k", "g")))
    assert keys_left(table) == [1, 4]
    with pytest.raises(UnsupportedError, match=r"the sequence \(g\) of a row to delete is null"):
        table.delete(keys=rows((1, None), (4, 2), columns=("k", "g")))
    assert keys_left(table) == [1, 4]


def test_a_row_is_removed_by_any_of_the_removing_sequences(catalog: CatalogHandle) -> None:
    table = made(catalog, **{"partial-update.remove-record-on-sequence-group": "g,h"})
    snapshot = table.delete("k < 4").snapshot_id
    assert table.snapshots()[-1].id == snapshot
    assert keys_left(table) == [4]

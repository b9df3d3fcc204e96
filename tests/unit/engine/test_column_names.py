"""Columns of tables with names such as those of the columns that rows carry beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.core.columns import EXISTING_BUCKET, ROW_KIND, SHUFFLE_BUCKET, SHUFFLE_HASH, SHUFFLE_ORDER
from paimon_spark.core.read.row_ordinals import ORDINAL
from paimon_spark.errors import ErrorKind, UsageError
from paimon_spark.spec.schema_rules import check_column_name

INTERNAL = (ROW_KIND, SHUFFLE_BUCKET, SHUFFLE_HASH, EXISTING_BUCKET, SHUFFLE_ORDER, ORDINAL)
NAMES = (
    *(name.removeprefix("_KEY_") for name in INTERNAL),
    *("_at_", "_key_", "_row_", "_side_", "_SIDE", "_to_", "_curve_", "_buckets_", "_number_"),
)
"""Names of columns that Paimon allows."""
SCHEMA = pa.schema([("k", pa.int32()), ("p", pa.int32()), *((name, pa.int32()) for name in NAMES)])
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"primary_key": "k", "options": {"bucket": "4"}},
    "dynamic": {"primary_key": "k"},
    "across partitions": {"primary_key": "k", "partition_by": "p"},
    "vectors": {"primary_key": "k", "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "lookup": {"primary_key": "k", "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "local merge": {"primary_key": "k", "options": {"bucket": "2", "local-merge-buffer-size": "1 mb"}},
    "postponed": {"primary_key": "k", "options": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "true"}},
    "append": {},
    "append with vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "upsert key": {"options": {"upsert-key": "k,_row_,_at_"}},
    "clustered": {"options": {"clustering.columns": "_curve_,k", "clustering.strategy": "zorder"}},
}


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


def rows(keys: range, shift: int = 0) -> pa.Table:
    k = np.arange(keys.start, keys.stop, dtype=np.int32)
    values = {name: (k * 7 + i + shift) % 5 for i, name in enumerate(NAMES)}
    return pa.table({"k": k, "p": k % 2, **values}).cast(SCHEMA)


def stored(table: TableHandle) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("k").to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_name_keep_their_values(catalog: CatalogHandle, kind: str) -> None:
    table = catalog.create_table("t", SCHEMA, **KINDS[kind])
    table.append(rows(range(40)))
    assert stored(table) == rows(range(40)).to_pylist()
    keyed = "primary_key" in KINDS[kind]
    if keyed:
        table.upsert(rows(range(10, 20), shift=1))
    changed = [*rows(range(10)).to_pylist(), *rows(range(10, 20), int(keyed)).to_pylist()]
    assert stored(table)[:20] == changed
    assert table.delete("k < 12").rows == 12
    assert stored(table) == [*changed[12:], *rows(range(20, 40)).to_pylist()]
    table.compact(full=True)
    assert stored(table) == [*changed[12:], *rows(range(20, 40)).to_pylist()]


@pytest.mark.parametrize("name", INTERNAL)
def test_no_column_has_the_name_of_one_beside_it(name: str) -> None:
    with pytest.raises(UsageError, match="Paimon reserves that name") as caught:
        check_column_name(name)
    assert caught.value.kind is ErrorKind.SCHEMA_INVALID


def test_rows_from_spark_carry_the_same_kind_column() -> None:
    source = Path(paimon_spark.__file__).parent / "bridge/scala/write/RowLevel.scala"
    assert f'val KindColumn = "{ROW_KIND}"' in source.read_text(encoding="utf-8")

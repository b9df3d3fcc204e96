"""Packing of the two rows of an update into one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.read.update_pairs import packed_pairs
from paimon_spark.spec.kinds import RowKind

KINDS = {k.short: int(k) for k in RowKind}
NAMES = {int(k): k.short for k in RowKind}
ROWS = [("+I", 1), ("-U", 2), ("+U", 3), ("-U", None), ("+U", 5), ("+U", 6), ("-U", 7), ("-D", 8), ("-U", 9)]
PACKED = [("+I", [1]), ("+U", [2, 3]), ("+U", [None, 5]), ("+U", [6]), ("-U", [7]), ("-D", [8]), ("-U", [9])]


def batches(rows: list[tuple[str, Any]], size: int) -> list[pa.RecordBatch]:
    kinds, values = zip(*rows, strict=True)
    columns = [pa.array(values, pa.int64()), pa.array(range(len(rows))), pa.array([KINDS[k] for k in kinds], pa.int8())]
    return pa.table(columns, names=["v", "n", ROW_KIND]).to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", range(1, 10))
def test_pairs_are_one_row_wherever_batches_end(size: int) -> None:
    found = pa.Table.from_batches(packed_pairs(batches(ROWS, size), pairs=True, plain=("n",))).to_pylist()
    assert [(NAMES[r[ROW_KIND]], r["v"]) for r in found] == PACKED
    assert [r["n"] for r in found] == [0, 1, 3, 5, 6, 7, 8]


def test_rows_of_a_state_are_no_pairs() -> None:
    found = pa.Table.from_batches(packed_pairs(batches(ROWS, 4), pairs=False)).to_pylist()
    assert [(NAMES[r[ROW_KIND]], r["v"]) for r in found] == [(k, [v]) for k, v in ROWS]

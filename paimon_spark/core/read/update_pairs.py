"""Rows of `$binlog`: each column is an array of one value, or of both values of an update.

(docs/spec/semantics.md, I6)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import values_of
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import RowKind


def packed_pairs(
    batches: Iterable[pa.RecordBatch], *, pairs: bool, plain: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield rows with arrays as columns, and the kind in `ROW_KIND`.

    Args:
        batches: rows with their kinds in `ROW_KIND`.
        pairs: whether a -U directly before a +U is one row with it: the earlier value comes first, and the kind is +U.
        plain: names of columns that are no arrays; a pair has the value of its first row.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if held is None else pa.concat_batches([held, batch])
        held = None
        if pairs and rows.num_rows and rows.column(ROW_KIND)[-1].as_py() == RowKind.UPDATE_BEFORE:
            held, rows = rows.slice(rows.num_rows - 1), rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield _packed(rows, plain, pairs=pairs)
    if held is not None:
        yield _packed(held, plain, pairs=pairs)


def _packed(rows: pa.RecordBatch, plain: Collection[str], *, pairs: bool) -> pa.RecordBatch:
    kinds = values_of(rows.column(ROW_KIND))
    starts = np.arange(rows.num_rows + 1, dtype=np.int64)
    if pairs:
        second = np.zeros(rows.num_rows + 1, np.bool_)
        second[1:-1] = (kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER)
        starts = starts[~second]
    columns = [_column(rows, name, starts, plain) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _column(rows: pa.RecordBatch, name: str, starts: I64, plain: Collection[str]) -> pa.Array:
    column = rows.column(name)
    if name == ROW_KIND:
        return column.take(pa.array(starts[1:] - 1))
    if name in plain:
        return column.take(pa.array(starts[:-1]))
    values = pa.concat_arrays([column]) if column.offset else column
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values)

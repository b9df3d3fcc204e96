"""Merge functions: how the rows of one key are merged. They process many keys at once.

(docs/spec/semantics.md, section 4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import VALUE_KIND, RowKind


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """All rows of some keys. `order` lists row positions by key and sequence; `starts`, where each key begins in it."""

    rows: pa.Table
    order: I64
    starts: I64


MergeFunction = Callable[[KeyGroups], pa.Table]
"""Return the merged rows in key order. A key with a single row keeps it unchanged."""


def retracts(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows are ``-U`` or ``-D``."""
    kinds = values_of(one_chunk(rows.column(VALUE_KIND)))
    return (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)


def drop_retracts(rows: pa.Table) -> pa.Table:
    """Return `rows` without ``-U`` and ``-D``."""
    mask = retracts(rows)
    return rows.filter(pa.array(~mask)) if mask.any() else rows


def deduplicate(window: KeyGroups) -> pa.Table:
    """Keep the last row of each key, whatever its kind."""
    return take(window.rows, window.order[_ends(window)])


def deduplicate_ignoring_deletes(window: KeyGroups) -> pa.Table:
    """Keep the last row of each key that is not a retract, if any; a key with a single row keeps it."""
    mask = retracts(window.rows)
    if not mask.any():
        return deduplicate(window)
    ends = _ends(window)
    counted = np.where(mask[window.order], np.int64(-1), np.arange(len(window.order), dtype=np.int64))
    last = np.maximum.reduceat(counted, window.starts) if len(window.starts) else ends
    last = np.where(ends == window.starts, ends, last)
    return take(window.rows, window.order[last[last >= 0]])


def _ends(window: KeyGroups) -> I64:
    return np.append(window.starts[1:], len(window.order)) - 1


def take(rows: pa.Table, positions: I64) -> pa.Table:
    """Return the rows at `positions`; a dense ascending selection is a slice without a copy."""
    n = len(positions)
    if n == 0:
        return rows.slice(0, 0)
    if int(positions[-1]) - int(positions[0]) == n - 1 and (n == 1 or bool((np.diff(positions) == 1).all())):
        return rows.slice(int(positions[0]), n)
    where = pa.array(positions)
    return pa.Table.from_arrays([_gather(c, where) for c in rows.columns], schema=rows.schema)


def _gather(column: pa.ChunkedArray, where: pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the values at `where`; only this column is copied into one chunk, and only temporarily."""
    if column.num_chunks == 1:
        return column.chunk(0).take(where)
    try:
        whole = pa.concat_arrays(column.chunks)
    except pa.ArrowInvalid:  # more bytes than the offsets of one array can address
        return column.take(where)
    return whole.take(where)

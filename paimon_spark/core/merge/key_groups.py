"""The versions of keys, the input of merge functions, and the assembly of merged rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.errors import ErrorKind, PaimonError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import VALUE_KIND, RowKind


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The versions of some keys.

    Attributes:
        rows: holds the versions; it may have other rows.
        order: the positions of the versions in `rows`, by key and sequence.
        starts: where each key begins in `order`.
        merged_alone: the keys that are merged although they have a single version; None for no such key.
    """

    rows: pa.Table
    order: I64
    starts: I64
    merged_alone: Mask | None = None

    @property
    def last(self) -> I64:
        """Return where the last version of each key is in `order`."""
        return np.append(self.starts[1:], len(self.order)) - 1

    @property
    def counts(self) -> I64:
        """Return the number of versions of each key."""
        return np.diff(np.append(self.starts, len(self.order)))

    def several(self) -> tuple[Mask, KeyGroups]:
        """Return which keys have several versions, or are merged alone, and the groups of these keys."""
        mask = self.counts > 1
        if self.merged_alone is not None:
            mask |= self.merged_alone
        return mask, self.keys(mask)

    def keys(self, mask: Mask) -> KeyGroups:
        """Return the groups of the keys of `mask`."""
        if mask.all():
            return self
        counts = self.counts
        counted = counts[mask]
        return KeyGroups(self.rows, self.order[np.repeat(mask, counts)], np.cumsum(counted) - counted)

    def versions(self, mask: Mask) -> KeyGroups:
        """Return all keys with the versions of `mask`, which is in `order` and has at least one version of each key."""
        if mask.all():
            return self
        counts = np.add.reduceat(mask.astype(np.int64), self.starts)
        return KeyGroups(self.rows, self.order[mask], np.cumsum(counts) - counts)

    def in_one_chunk(self) -> KeyGroups:
        """Return the same groups over columns of one chunk each, for merges that read columns several times."""
        return replace(self, rows=self.rows.combine_chunks())

    def of_rows(self, rows: pa.Table) -> KeyGroups:
        """Return the same groups over other columns of the same rows."""
        return replace(self, rows=rows)


MergeFunction = Callable[[KeyGroups], pa.Table]
"""Return the merged rows in key order. A key with a single row keeps it unchanged."""

MergeInputs: TypeAlias = Mapping[str, tuple[str, ...]]
"""The columns that merging a column reads; those of ``""`` are read by every merge."""

Merged: TypeAlias = "I64 | pa.Array"
"""A merged column: positions in the rows of the groups (-1 for null), or the values themselves."""


def single_versions(rows: pa.Table) -> KeyGroups:
    """Return rows in key order, one per key, as groups."""
    positions = np.arange(rows.num_rows, dtype=np.int64)
    return KeyGroups(rows, positions, positions)


def last_where(mask: Mask, starts: I64) -> I64:
    """Return the last index for which `mask` is true in each group that begins at `starts`, or -1."""
    return np.maximum.reduceat(np.where(mask, np.arange(len(mask), dtype=np.int64), np.int64(-1)), starts)


def first_where(mask: Mask, starts: I64) -> I64:
    """Return the first index for which `mask` is true in each group that begins at `starts`, or -1."""
    n = np.int64(len(mask))
    first = np.minimum.reduceat(np.where(mask, np.arange(len(mask), dtype=np.int64), n), starts)
    return np.where(first == n, np.int64(-1), first)


def retracts(rows: pa.Table) -> Mask:
    """Return which rows are ``-U`` or ``-D``."""
    kinds = values_of(one_chunk(rows.column(VALUE_KIND)))
    return (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)


def drop_retracts(rows: pa.Table) -> pa.Table:
    """Return `rows` without ``-U`` and ``-D``."""
    mask = retracts(rows)
    return rows.filter(pa.array(~mask)) if mask.any() else rows


def sorted_versions(groups: KeyGroups) -> pa.Table:
    """Return all versions of all keys, in key order and then from old to new."""
    return take(groups.rows, groups.order)


def assemble(groups: KeyGroups, several: Mask, merged: Mapping[str, Merged]) -> pa.Table:
    """Return one row per key in key order: single versions unchanged, `merged` columns of the keys with several.

    A column that is not in `merged` has the value of the last version.
    """
    rows = groups.rows
    last = groups.order[groups.last]
    where = np.flatnonzero(several)
    columns = []
    for f in rows.schema:
        column = rows.column(f.name)
        value = merged.get(f.name)
        if value is None:
            columns.append(gather(column, pa.array(last)))
        elif isinstance(value, np.ndarray):
            positions = last.copy()
            positions[where] = value
            columns.append(gather(column, nullable_positions(positions)))
        else:
            columns.append(_spliced(column, last, where, value.cast(f.type) if value.type != f.type else value))
    return pa.Table.from_arrays(columns, schema=rows.schema)


def check_required(rows: pa.Table, required: Collection[str]) -> pa.Table:
    """Return merged rows whose `required` columns have values; retracts may lack them.

    Raises:
        PaimonError: a column that is NOT NULL became null, as by a retract.
    """
    for name in required:
        column = rows.column(name) if name in rows.column_names else None
        if column is not None and column.null_count:
            kept = drop_retracts(rows.select([name, VALUE_KIND]))
            if kept.column(name).null_count:
                raise PaimonError(
                    f"The NOT NULL column '{name}' is null in a row that was merged.",
                    hint=f"Make it nullable: ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL.",
                    kind=ErrorKind.NOT_NULL_VIOLATION,
                )
    return rows


def _spliced(column: pa.ChunkedArray, last: I64, where: I64, values: pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the last versions of `column` with `values` at the keys `where`."""
    if len(where) == len(last):
        return values
    if pa.types.is_primitive(values.type) or pa.types.is_decimal(values.type):
        mask = np.zeros(len(last), dtype=np.bool_)
        mask[where] = True
        return pc.replace_with_mask(gather(column, pa.array(last)), pa.array(mask), values)
    positions = last.copy()
    positions[where] = len(column) + np.arange(len(where))
    return gather(pa.chunked_array([*column.chunks, values], column.type), pa.array(positions))


def nullable_positions(positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return positions as an Arrow array, negative ones as null."""
    missing = positions < 0
    return pa.array(positions, mask=missing) if missing.any() else pa.array(positions)


def take(rows: pa.Table, positions: I64) -> pa.Table:
    """Return the rows at `positions`; a dense ascending selection is a slice without a copy."""
    n = len(positions)
    if n == 0:
        return rows.slice(0, 0)
    if int(positions[-1]) - int(positions[0]) == n - 1 and (n == 1 or bool((np.diff(positions) == 1).all())):
        return rows.slice(int(positions[0]), n)
    where = pa.array(positions)
    return pa.Table.from_arrays([gather(c, where) for c in rows.columns], schema=rows.schema)


def gather(column: pa.ChunkedArray, where: pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the values at `where`; only this column is copied into one chunk, and only temporarily."""
    if column.num_chunks == 1:
        return column.chunk(0).take(where)
    try:
        whole = pa.concat_arrays(column.chunks)
    except pa.ArrowInvalid:  # more bytes than the offsets of one array can address
        return column.take(where)
    return whole.take(where)

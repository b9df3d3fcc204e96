"""The changelog rows of merged keys: the state of each key before and after.

(docs/spec/semantics.md, section 6)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.char_values import padded
from paimon_spark.core.columns import reserved
from paimon_spark.core.merge.aggregates.value_codes import value_codes
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, retracts, take
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import VALUE_KIND, RowKind
from paimon_spark.spec.types import DataField

_KEY = reserved("_key_")
"""The number of the key of each row, which identifies merged rows if a merge drops keys."""


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """The merged rows of some keys, in key order.

    Attributes:
        rows: at most one row per key.
        row_of: the position of each key in `rows`, or -1 for a key without a row.
    """

    rows: pa.Table
    row_of: I64


def merge_keys(groups: KeyGroups, function: MergeFunction) -> MergedKeys:
    """Merge the versions of each key."""
    n = len(groups.starts)
    numbers = np.zeros(groups.rows.num_rows, dtype=np.int64)
    numbers[groups.order] = np.repeat(np.arange(n), groups.counts)
    merged = function(groups.of_rows(groups.rows.append_column(_KEY, pa.array(numbers))))
    row_of = np.full(n, -1, dtype=np.int64)
    row_of[values_of(one_chunk(merged.column(_KEY)))] = np.arange(merged.num_rows)
    return MergedKeys(merged.drop_columns([_KEY]), row_of)


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Makes changelog rows.

    Attributes:
        columns: the columns of the changelog rows, system columns included.
        compared: the columns of which an update must change at least one; None if every update counts.
    """

    columns: tuple[str, ...]
    compared: tuple[DataField, ...] | None = None

    @classmethod
    def of(cls, table: Table) -> ChangeRows:
        """Return the maker of changelog rows for the options of a table."""
        options, fields = table.options, table.schema.fields
        compared = None
        if options.changelog_row_deduplicate:
            ignored = {*options.changelog_row_deduplicate_ignore_fields, *table.schema.primary_keys}
            compared = tuple(f for f in fields if f.name not in ignored)
        return cls(tuple(f.name for f in (*SYSTEM_FIELDS, *fields)), compared)

    def __call__(self, rows: pa.Table, before: I64, merged: MergedKeys, changed: Mask) -> pa.Table:
        """Return the changelog rows in key order, ``-U`` before ``+U``.

        Args:
            rows: the versions that were merged.
            before: the position in `rows` of the row that each key had before, or -1.
            merged: the row that each key has now.
            changed: the keys whose changelog rows are requested.
        """
        old = changed & _adds(rows, before)
        new = changed & _adds(merged.rows, merged.row_of)
        both = np.flatnonzero(old & new)
        if self.compared is not None and len(both):
            same = _equal(rows, before[both], merged.rows, merged.row_of[both], self.compared)
            old[both[same]] = new[both[same]] = False
        return self._rows(rows, before, merged, old, new)

    def _rows(self, rows: pa.Table, before: I64, merged: MergedKeys, old: Mask, new: Mask) -> pa.Table:
        counts = old.astype(np.int64) + new
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        positions = np.empty(total, dtype=np.int64)
        kinds = np.empty(total, dtype=np.int8)
        first, last = (ends - counts)[old], (ends - 1)[new]
        positions[first] = before[old]
        kinds[first] = np.where(new[old], RowKind.UPDATE_BEFORE, RowKind.DELETE)
        positions[last] = rows.num_rows + merged.row_of[new]
        kinds[last] = np.where(old[new], RowKind.UPDATE_AFTER, RowKind.INSERT)
        both = pa.concat_tables([rows.select(self.columns), merged.rows.select(self.columns)])
        out = take(both, positions)
        kind = out.column_names.index(VALUE_KIND)
        return out.set_column(kind, out.schema.field(kind), pa.array(kinds))


def _adds(rows: pa.Table, positions: I64) -> Mask:
    """Return which positions are of rows that are not retracts."""
    found = positions >= 0
    found[found] = ~retracts(rows)[positions[found]]
    return found


def _equal(left: pa.Table, at: I64, right: pa.Table, beside: I64, columns: Sequence[DataField]) -> Mask:
    """Return which rows of `left` and `right` are equal in `columns`: null equals null, NaN is NaN, 0.0 is not -0.0."""
    out = np.ones(len(at), dtype=np.bool_)
    for f in columns:
        a = one_chunk(left.column(f.name)).take(pa.array(at))
        b = one_chunk(right.column(f.name)).take(pa.array(beside))
        out &= _equal_values(padded(a, f.type), padded(b, f.type))
    return out


def _equal_values(a: pa.Array, b: pa.Array) -> Mask:
    if pa.types.is_nested(a.type) or pa.types.is_floating(a.type):
        codes = value_codes(pa.concat_arrays([a, b]))
        return np.asarray(codes[: len(a)] == codes[len(a) :])
    same = pc.equal(a, b).fill_null(False)  # noqa: FBT003 - the value, not a flag
    if a.null_count and b.null_count:
        same = pc.or_(same, pc.and_(a.is_null(), b.is_null()))
    return np.asarray(same)

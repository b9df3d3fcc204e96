"""The difference of two states of the same keys: rows that are new, that changed, and that are gone.

The merged rows of both states are joined in key order; memory is that of a merge (docs/spec/semantics.md, I4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.char_values import padded
from paimon_spark.core.columns import reserved
from paimon_spark.core.merge.aggregates.value_codes import value_codes
from paimon_spark.core.merge.key_groups import KeyGroups, drop_retracts, gather, retracts, take
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_key_groups
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import VALUE_KIND, RowKind
from paimon_spark.spec.types import DataField

_SIDE = reserved("_side_")
_BEFORE, _AFTER = 0, 1


def difference_rows(
    before: Sequence[Iterable[pa.Table]],
    after: Sequence[Iterable[pa.Table]],
    key: Sequence[DataField],
    values: Sequence[DataField],
    *,
    keep_kinds: bool,
) -> Iterator[pa.Table]:
    """Yield, in key order, the later row of each key that is new or changed.

    Args:
        before: merged rows of the earlier state, each in key order; a key is in one of them only.
        after: those of the later state.
        key: the key columns.
        values: the columns that are compared; null equals null, and NaN equals NaN.
        keep_kinds: keep retracts, and yield the earlier row, as -D, of each key that is gone.
    """
    sides = [(_BEFORE, rows) for rows in before] + [(_AFTER, rows) for rows in after]
    runs = [_of_side(rows, side, keep_kinds=keep_kinds) for side, rows in sides]
    for part in merge_key_groups(runs, MergeOrder(key=tuple(key))):
        if isinstance(part, KeyGroups):
            rows = _joined(part, values, keep_kinds=keep_kinds)
        elif part.column(_SIDE)[0].as_py() == _AFTER:
            rows = part
        else:
            rows = _gone(part, keep_kinds=keep_kinds)
        if rows.num_rows:
            yield rows.drop_columns([_SIDE])


def _of_side(chunks: Iterable[pa.Table], side: int, *, keep_kinds: bool) -> Iterator[pa.Table]:
    for chunk in chunks:
        rows = chunk if keep_kinds else drop_retracts(chunk)
        yield rows.append_column(_SIDE, pa.repeat(pa.scalar(side, pa.int8()), rows.num_rows))


def _gone(rows: pa.Table, *, keep_kinds: bool) -> pa.Table:
    """Return rows that only the earlier state has, as deletes."""
    if not keep_kinds:
        return rows.slice(0, 0)
    kept = drop_retracts(rows)
    return _with_kinds(kept, np.full(kept.num_rows, RowKind.DELETE, np.int8))


def _joined(groups: KeyGroups, values: Sequence[DataField], *, keep_kinds: bool) -> pa.Table:
    rows = groups.rows
    side = values_of(one_chunk(rows.column(_SIDE)))
    kinds = values_of(one_chunk(rows.column(VALUE_KIND)))
    first, last = groups.order[groups.starts], groups.order[groups.last]
    later = np.where(side[last] == _AFTER, last, first)
    earlier = first + last - later
    alone = first == last
    gone = alone & (side[first] == _BEFORE)
    kept = alone & ~gone
    kept[~alone] = _differ(rows, earlier[~alone], later[~alone], values)
    if keep_kinds:
        gone &= ~retracts(rows)[first]
        kept |= gone
    found = later[kept]
    of_rows = kinds[found].copy()
    of_rows[gone[kept]] = RowKind.DELETE
    return _with_kinds(take(rows, found), of_rows)


def _differ(rows: pa.Table, earlier: I64, later: I64, values: Sequence[DataField]) -> Mask:
    """Return which pairs of rows differ: in a value, or because one is a retract and the other is not."""
    n = len(earlier)
    retracted = retracts(rows)
    out: Mask = retracted[earlier] != retracted[later]
    where = pa.array(np.concatenate([earlier, later]))
    for f in values:
        codes = value_codes(padded(one_chunk(gather(rows.column(f.name), where)), f.type))
        out |= codes[:n] != codes[n:]
    return out


def _with_kinds(rows: pa.Table, kinds: object) -> pa.Table:
    return rows.set_column(rows.column_names.index(VALUE_KIND), VALUE_KIND, pa.array(kinds, pa.int8()))

"""The aggregation engine: each column is merged by its aggregate function (docs/spec/semantics.md, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.aggregates.registry import Aggregate
from paimon_spark.core.merge.key_groups import KeyGroups, Merged, assemble, check_required, last_where, retracts
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import VALUE_KIND, RowKind


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Merges keys column by column.

    Attributes:
        functions: the function of each column but the key; a column without one has its last value.
        remove_record_on_delete: whether ``-D`` deletes the row.
        required: the columns that are NOT NULL.
    """

    functions: Mapping[str, Aggregate]
    remove_record_on_delete: bool = False
    required: frozenset[str] = frozenset()

    def __call__(self, groups: KeyGroups) -> pa.Table:
        """Return the merged rows in key order.

        Raises:
            UnsupportedError: a retract of a column whose function has none.
            PaimonError: an integer overflows, or a NOT NULL column becomes null.
        """
        several, merging = groups.several()
        if not len(merging.starts):
            return assemble(groups, several, {})
        groups = groups.in_one_chunk()
        merging = merging.of_rows(groups.rows)
        kinds = values_of(one_chunk(groups.rows.column(VALUE_KIND)))[merging.order]
        base, deleted = self._remove(merging, kinds)
        mask, preset = retracts(groups.rows)[base.order], np.zeros(len(base.order), dtype=np.bool_)
        if deleted[0].any():
            mask[base.starts] &= ~deleted[0]
            preset[base.starts[deleted[0]]] = True
        out: dict[str, Merged] = {VALUE_KIND: _result_kinds(deleted[1])}
        for name, function in self.functions.items():
            if name in groups.rows.column_names:
                column = one_chunk(groups.rows.column(name))
                inputs = Inputs(
                    column,
                    base.order,
                    base.starts,
                    mask if mask.any() else None,
                    preset=preset if preset.any() else None,
                )
                out[name] = function(inputs)
        return check_required(assemble(groups, several, out), self.required)

    def _remove(self, merging: KeyGroups, kinds: pa.Array) -> tuple[KeyGroups, tuple[Mask, Mask]]:
        """Return the groups from the last ``-D`` of each key on; which begin with one, and which end with one."""
        n = len(merging.starts)
        if not self.remove_record_on_delete or not (kinds == RowKind.DELETE).any():
            none = np.zeros(n, dtype=np.bool_)
            return merging, (none, none)
        deletes = kinds == RowKind.DELETE
        index = np.arange(len(kinds), dtype=np.int64)
        last = last_where(deletes, merging.starts)
        begins: I64 = np.where(last < 0, merging.starts, last)
        counts = merging.last + 1 - merging.starts
        kept = index >= np.repeat(begins, counts)
        lengths = merging.last + 1 - begins
        out = KeyGroups(merging.rows, merging.order[kept], np.cumsum(lengths) - lengths)
        return out, (last >= 0, last == merging.last)


def _result_kinds(deleted: Mask) -> pa.Array:
    return pa.array(np.where(deleted, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT)))

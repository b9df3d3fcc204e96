"""Merging of rows of one key before the shuffle to their writers (docs/spec/semantics.md, W20).

Rows of all partitions and buckets pass through one buffer. When it is full, its rows are merged by key; if that leaves
it more than half full, they go on, else more rows are merged into them. The rows that go on for a key keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.merge.key_groups import KeyGroups, retracts, sorted_versions
from paimon_spark.core.merge.sort_merge import sorted_rows
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.format.arrays import Mask
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.spec.merge_rules import local_merge_obstacle


def merges_locally(table: Table) -> bool:
    """Return whether rows of one key are merged before they are shuffled.

    They are not where that could change the result: other engines and statements may set the option there.
    """
    options = table.options
    if not table.is_primary_key_table or options.local_merge_buffer_size is None:
        return False
    return local_merge_obstacle(table.schema, options) is None


class LocalMerger:
    """Merges the rows of one task.

    Args:
        table: a table that `merges_locally`.
    """

    def __init__(self, table: Table) -> None:
        key = tuple(table.schema.field(k) for k in table.schema.primary_keys)
        self._order = replace(merge_order(table, stored=False), key=key)
        self._rules = WriteRules.of(table)
        self._budget = table.options.local_merge_buffer_size or 0
        self._next = 0
        self._waiting: list[pa.Table] = []
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Take the input rows of a `TableWriter`; yield those that go on: all columns of the table and `ROW_KIND`.

        Raises:
            UsageError: a null in a NOT NULL column, or a value or kind that does not fit.
        """
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        step = max(1, self._budget // width)
        for start in range(0, batch.num_rows, step):
            rows = prepare_batch(batch.slice(start, step), self._rules)
            if not rows.count:
                continue
            numbers = np.arange(self._next, self._next + rows.count, dtype=np.int64)
            self._next += rows.count
            piece = rows.columns.append_column(SEQUENCE_NUMBER, pa.array(numbers))
            piece = piece.append_column(VALUE_KIND, pa.array(rows.kinds))
            self._waiting.append(piece)
            self._size += piece.nbytes
            if self._size >= self._budget:
                yield from self._relieve()

    def finish(self) -> Iterator[pa.Table]:
        """Yield the rows that are left."""
        if self._waiting:
            yield _handed_on(self._empty())

    def _relieve(self) -> Iterator[pa.Table]:
        merged = self._empty()
        if merged.nbytes > self._budget // 2:
            yield _handed_on(merged)
        else:
            self._waiting, self._size = [merged], merged.nbytes

    def _empty(self) -> pa.Table:
        """Empty the buffer and return its rows, merged."""
        rows, self._waiting, self._size = pa.concat_tables(self._waiting), [], 0
        return self._merged(sorted_rows(rows, self._order))

    def _merged(self, groups: KeyGroups) -> pa.Table:
        """Return one row per key.

        Rows of a key with a retract are not merged unless the engine picks one of them, because the retracted row comes
        first.
        """
        kept = _with_retracts(groups)
        if self._order.picks or not kept.any():
            return self._order.function(groups)
        parts = [sorted_versions(groups.keys(kept))]
        if not kept.all():
            parts.append(self._order.function(groups.keys(~kept)))
        return pa.concat_tables(parts)


def _with_retracts(groups: KeyGroups) -> Mask:
    """Return the keys of which a version is a retract."""
    mask = retracts(groups.rows)
    if not mask.any():
        return np.zeros(len(groups.starts), dtype=np.bool_)
    return np.logical_or.reduceat(mask[groups.order], groups.starts)


def _handed_on(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([SEQUENCE_NUMBER]).rename_columns({VALUE_KIND: ROW_KIND})

"""Merging with rows that a statement sets for some keys: its rows replace the merged ones.

The stored versions of a key are merged as in a full compaction, without the row of the statement. The previous row of a
key depends on the changelog producer, which determines the rows that the changelog has already.
(docs/spec/semantics.md, section 6)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.core.changelog.change_rows import ChangeRows, MergedKeys, merge_keys
from paimon_spark.core.changelog.lookup import Merged
from paimon_spark.core.merge.engines.lookup import level_of, lowest_upper
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, last_where, take
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import ChangelogProducer, MergeEngine

STATED = -1
"""The level of rows that a statement sets; stored ones have the level of their file."""


@dataclass(frozen=True, slots=True)
class StatedRows:
    """Merges all versions of keys, including rows that a statement sets.

    Attributes:
        function: merges the stored versions of keys.
        producer: the changelog producer.
        top: the top level, to which the rows go.
        changes: makes the rows of the changelog.
    """

    function: MergeFunction
    producer: ChangelogProducer
    top: int
    changes: ChangeRows

    @classmethod
    def of(cls, table: Table, function: MergeFunction, top: int) -> StatedRows:
        """Return the merge for a table."""
        changes = ChangeRows.of(table)
        if table.options.merge_engine is MergeEngine.FIRST_ROW:  # a later version of a key does not change it
            values = tuple(f for f in table.schema.fields if f.name not in table.schema.primary_keys)
            changes = ChangeRows(changes.columns, values)
        return cls(function, table.options.changelog_producer, top, changes)

    def __call__(self, groups: KeyGroups) -> Merged:
        """Merge the versions of keys; their rows have the column ``_LEVEL``.

        Raises:
            ConflictError: a statement sets the row of a key of which none is stored.
        """
        at = last_where(level_of(groups.rows)[groups.order] == STATED, groups.starts)
        found = at >= 0
        stored = _without(groups, found)
        merged = merge_keys(stored, self.function)
        after = _replaced(groups, merged, at) if found.any() else merged
        return Merged(after.rows, self._changelog(stored, merged, after, found))

    def _changelog(self, stored: KeyGroups, merged: MergedKeys, after: MergedKeys, found: Mask) -> pa.Table | None:
        if self.producer is ChangelogProducer.NONE:
            return None
        if self.producer is ChangelogProducer.INPUT:
            return self.changes(merged.rows, merged.row_of, after, found)
        if self.producer is ChangelogProducer.LOOKUP:
            upper = lowest_upper(stored)
            return self.changes(stored.rows, upper.upper, after, upper.has_level_0 | found)
        where = last_where(level_of(stored.rows)[stored.order] == self.top, stored.starts)
        before = np.where(where < 0, np.int64(-1), stored.order[where])
        return self.changes(stored.rows, before, after, (stored.counts > 1) | (before < 0) | found)


def _without(groups: KeyGroups, found: Mask) -> KeyGroups:
    """Return the stored versions of all keys; `found` are those with a stated row."""
    if not found.any():
        return groups
    kept = level_of(groups.rows)[groups.order] != STATED
    if not np.logical_or.reduceat(kept, groups.starts).all():
        raise ConflictError(
            "A row to be changed is not in the snapshot that the statement began with: another commit added it.",
            hint="Nothing was written. Run the statement again: it will start from the new state.",
        )
    return groups.versions(kept)


def _replaced(groups: KeyGroups, merged: MergedKeys, at: I64) -> MergedKeys:
    """Return the merged rows with the stated ones in their places; `at` is where these are in the order, or -1."""
    found = at >= 0
    rows = pa.concat_tables([merged.rows, groups.rows.select(merged.rows.column_names)])
    row = merged.row_of.copy()
    row[found] = merged.rows.num_rows + groups.order[at[found]]
    there = row >= 0
    return MergedKeys(take(rows, row[there]), np.where(there, np.cumsum(there) - 1, np.int64(-1)))

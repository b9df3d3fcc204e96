"""Merging with a lookup: rows of level 0 are merged with the row that the levels above them hold for their key.

The versions to merge are those of the files of a compaction and of the files above its output level, distinguished by
the level of their file. Keys that only the latter have are left out. The previous row of a key is its row above level
0. (docs/spec/semantics.md, M1, C20 and section 6)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_spark.core.changelog.change_rows import ChangeRows, merge_keys
from paimon_spark.core.merge.engines.lookup import level_of, lowest_upper
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, retracts
from paimon_spark.format.arrays import I64, Mask

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging some keys.

    Attributes:
        rows: the merged rows in key order, retracts included.
        changelog: the changelog rows in key order; None if there is no changelog.
        replaced: the positions, in the versions that were merged, of the rows above the output level that `rows` hold.
    """

    rows: pa.Table
    changelog: pa.Table | None = None
    replaced: I64 = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Merges keys and looks up their previous rows.

    Attributes:
        function: merges the versions of keys.
        output_level: the level that the compaction writes to.
        changes: makes the rows of the changelog; None for no changelog.
        expired: returns which rows have expired; those above the output level are replaced, but not merged.
    """

    function: MergeFunction
    output_level: int
    changes: ChangeRows | None
    expired: Callable[[pa.Table], Mask] | None = None

    def __call__(self, groups: KeyGroups) -> Merged:
        """Merge the versions of keys; their rows have the column ``_LEVEL``."""
        own = level_of(groups.rows) <= self.output_level
        groups = groups.keys(np.logical_or.reduceat(own[groups.order], groups.starts))
        if not len(groups.starts):
            empty = groups.rows.slice(0, 0)
            return Merged(empty, None if self.changes is None else empty.select(self.changes.columns))
        gone = _NONE
        if self.expired is not None:
            mask = (self.expired(groups.rows) & ~own)[groups.order]
            gone, groups = groups.order[mask], groups.versions(~mask)
        found = lowest_upper(groups)
        merged = merge_keys(_retracts_alone(found.groups), self.function)
        before = found.upper
        changelog = None
        if self.changes is not None:
            changelog = self.changes(groups.rows, before, merged, found.has_level_0)
        known = before[before >= 0]
        return Merged(merged.rows, changelog, np.concatenate([known[~own[known]], gone]))


def _retracts_alone(groups: KeyGroups) -> KeyGroups:
    """Merge single retracts, too, because there may be no row to retract from (docs/spec/semantics.md, C20)."""
    single = (groups.counts == 1) & retracts(groups.rows)[groups.order[groups.starts]]
    return KeyGroups(groups.rows, groups.order, groups.starts, single) if single.any() else groups

"""Merging where upper levels hold merged rows: of those of a key, only the one of the lowest level counts.

Compaction of tables that look up older rows joins all upper levels into each row that it writes.
(docs/spec/semantics.md, M1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import LEVEL
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, last_where
from paimon_spark.format.arrays import I64, Mask

_ABOVE_ALL = np.int8(127)


@dataclass(frozen=True, slots=True)
class WithUpperLevels:
    """Merges the versions of level 0 and the one of the lowest level above it."""

    function: MergeFunction

    def __call__(self, groups: KeyGroups) -> pa.Table:
        """Return the merged rows in key order."""
        if not len(groups.starts):
            return self.function(groups)
        return self.function(lowest_upper(groups).groups)


@dataclass(frozen=True, slots=True)
class LowestUpper:
    """The versions of level 0 of some keys, and of those above it the one of the lowest level.

    Attributes:
        groups: these versions.
        upper: the position in `groups.rows` of the version above level 0, or -1.
        has_level_0: which keys have a version of level 0.
    """

    groups: KeyGroups
    upper: I64
    has_level_0: Mask


def lowest_upper(groups: KeyGroups) -> LowestUpper:
    """Return the versions that count of those of at least one key; their rows have the column ``_LEVEL``."""
    levels = level_of(groups.rows)[groups.order]
    above = levels > 0
    lowest = np.minimum.reduceat(np.where(above, levels, _ABOVE_ALL), groups.starts)
    kept = ~above | (levels == np.repeat(lowest, groups.counts))
    found = groups.versions(kept)
    where = last_where(above[kept], found.starts)
    upper = np.where(where < 0, np.int64(-1), found.order[where])
    return LowestUpper(found, upper, np.logical_or.reduceat(~above, groups.starts))


def level_of(rows: pa.Table) -> npt.NDArray[np.int8]:
    """Return the level of each row, from its column ``_LEVEL``."""
    return values_of(one_chunk(rows.column(LEVEL)))

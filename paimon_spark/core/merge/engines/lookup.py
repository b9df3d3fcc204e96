"""Merging where upper levels hold merged rows: of those of a key, only the one of the lowest level counts.

Compaction of tables that look up older rows joins all upper levels into each row that it writes.
(docs/spec/semantics.md, M1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import LEVEL
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction

_ABOVE_ALL = np.int64(1 << 62)


@dataclass(frozen=True, slots=True)
class WithUpperLevels:
    """Merges the versions of level 0 and the one of the lowest level above it."""

    function: MergeFunction

    def __call__(self, groups: KeyGroups) -> pa.Table:
        """Return the merged rows in key order."""
        levels = values_of(one_chunk(groups.rows.column(LEVEL))).astype(np.int64)[groups.order]
        upper = np.where(levels > 0, levels, _ABOVE_ALL)
        lowest = np.minimum.reduceat(upper, groups.starts) if len(groups.starts) else upper
        counts = np.diff(np.append(groups.starts, len(groups.order)))
        kept = (levels <= 0) | (levels == np.repeat(lowest, counts))
        if not kept.all():
            counts = np.add.reduceat(kept.astype(np.int64), groups.starts)
            groups = KeyGroups(groups.rows, groups.order[kept], np.cumsum(counts) - counts)
        return self.function(groups)

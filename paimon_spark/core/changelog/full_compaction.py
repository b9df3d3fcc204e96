"""The changelog of full compactions: the rows of the top level before and after.

(docs/spec/semantics.md, G3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.core.changelog.change_rows import ChangeRows, merge_keys
from paimon_spark.core.changelog.lookup import Merged
from paimon_spark.core.merge.engines.lookup import level_of
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, last_where


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """Merges keys into the top level.

    Attributes:
        function: merges the versions of keys.
        top: the top level.
        changes: makes the rows of the changelog.
    """

    function: MergeFunction
    top: int
    changes: ChangeRows

    def __call__(self, groups: KeyGroups) -> Merged:
        """Merge the versions of keys; their rows have the column ``_LEVEL``."""
        where = last_where(level_of(groups.rows)[groups.order] == self.top, groups.starts)
        before = np.where(where < 0, np.int64(-1), groups.order[where])
        merged = merge_keys(groups, self.function)
        changed = (groups.counts > 1) | (before < 0)
        return Merged(merged.rows, self.changes(groups.rows, before, merged, changed))

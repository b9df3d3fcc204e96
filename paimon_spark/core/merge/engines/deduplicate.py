"""The deduplicate engine: the last version of a key wins (docs/spec/semantics.md, section 4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.key_groups import KeyGroups, last_where, retracts, take


def deduplicate(groups: KeyGroups) -> pa.Table:
    """Keep the last row of each key, whatever its kind."""
    return take(groups.rows, groups.order[groups.last])


def deduplicate_ignoring_deletes(groups: KeyGroups) -> pa.Table:
    """Keep the last row of each key that is not a retract, if any; a key with a single row keeps it."""
    mask = retracts(groups.rows)
    if not mask.any():
        return deduplicate(groups)
    ends = groups.last
    last = last_where(~mask[groups.order], groups.starts)
    last = np.where(ends == groups.starts, ends, last)
    return take(groups.rows, groups.order[last[last >= 0]])

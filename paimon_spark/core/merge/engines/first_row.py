"""The first-row engine: the first version of a key stays (docs/spec/semantics.md, section 4.4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.key_groups import KeyGroups, first_where, retracts, take
from paimon_spark.errors import ErrorKind, UnsupportedError


def first_row(groups: KeyGroups) -> pa.Table:
    """Keep the first row of each key.

    Raises:
        UnsupportedError: a key with several rows has a retract.
    """
    if retracts(groups.rows)[groups.several()[1].order].any():
        raise UnsupportedError(
            "A table with 'merge-engine' = 'first-row' cannot merge -U and -D rows.",
            hint="Set 'ignore-delete' = 'true' to ignore them.",
            kind=ErrorKind.RETRACT_NOT_SUPPORTED,
        )
    return take(groups.rows, groups.order[groups.starts])


def first_row_ignoring_deletes(groups: KeyGroups) -> pa.Table:
    """Keep the first row of each key that is not a retract, if any; a key with a single row keeps it."""
    mask = retracts(groups.rows)[groups.order]
    if not mask.any():
        return take(groups.rows, groups.order[groups.starts])
    first = first_where(~mask, groups.starts)
    first = np.where(groups.last == groups.starts, groups.starts, first)
    return take(groups.rows, groups.order[first[first >= 0]])

"""Whether rows merge differently once a table looks up older rows, or no longer does.

With lookups, a row above level 0 contains the rows of its key beneath it; without them, they are merged with each
other. So the results differ where a bucket has files at several levels above 0. (docs/spec/semantics.md, M1)
"""

from __future__ import annotations

from paimon_spark.core.merge.config import looks_up
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import PICKING
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.snapshot import Snapshot


def merges_differ(table: Table, snapshot: Snapshot | None, before: CoreOptions, after: CoreOptions) -> bool:
    """Return whether rows of a snapshot that was written with some options may be merged differently with others.

    Args:
        table: the table.
        snapshot: the snapshot; None has no rows.
        before: the options that its files were written with.
        after: the options to merge them with.
    """
    if looks_up(before) == looks_up(after) or not _depends_on_lookups(after):
        return False
    buckets = scan_buckets(table, snapshot, statistics=False).buckets()
    return any(len({f.level for f in b.files if f.level > 0}) > 1 for b in buckets)


def _depends_on_lookups(options: CoreOptions) -> bool:
    """Return whether the merged row is not always the newest one."""
    return options.merge_engine not in PICKING or bool(options.sequence_field) or options.ignore_delete

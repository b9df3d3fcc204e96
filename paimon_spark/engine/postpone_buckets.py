"""Buckets of tables with postponed buckets: their number per partition, and whether a write uses them.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.options import CoreOptions


def postpone_state(
    table: Table, info: WriterRestoreState, *, overwrite: bool, query: str | None = None
) -> WriterRestoreState:
    """Return the state of the writers of a table with postponed buckets.

    Existing partitions keep their number of buckets. Without `postpone.batch-write-fixed-bucket`, all rows are
    postponed, and so are those that a streaming query adds.

    Args:
        table: the table.
        info: the state that tables of all bucket modes have.
        overwrite: whether the statement replaces the postponed rows of the partitions that it writes.
        query: the streaming query that writes, if it is one.
    """
    options = table.options
    if query is not None and not (overwrite and options.postpone_batch_write_fixed_bucket):
        return replace(info, postpone_user=query)
    if not options.postpone_batch_write_fixed_bucket:
        prefix = options.commit_user_prefix
        user = str(uuid.uuid4())
        return replace(info, postpone_user=f"{prefix}_{user}" if prefix else user)
    entries = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    ordered = overwrite or bool(options.sequence_field)
    waiting = () if ordered else tuple(sorted({e.partition for e in entries if e.bucket < 0}))
    return replace(info, bucket_counts=bucket_counts(entries), waiting=waiting)


def bucket_counts(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """Return the number of buckets of each partition that has files in buckets."""
    return {e.partition: e.total_buckets for e in entries if e.bucket >= 0 and e.total_buckets > 0}


def postponed_rows(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """Return the number of postponed rows of each partition."""
    rows: dict[bytes, int] = {}
    for e in entries:
        if e.bucket < 0:
            rows[e.partition] = rows.get(e.partition, 0) + e.file.row_count
    return rows


def buckets_by_rows(rows: int, target: int) -> int:
    """Return the number of buckets for a number of rows."""
    return max(1, -(-rows // target))


def buckets_to_fill(options: CoreOptions, postponed: Mapping[bytes, int], default: int) -> dict[bytes, int]:
    """Return the number of buckets for partitions whose rows have been postponed so far.

    Args:
        options: the options of the table.
        postponed: postponed rows by partition.
        default: the number if the options set none.
    """
    target = options.postpone_target_row_num_per_bucket
    if target is not None:
        return {p: buckets_by_rows(n, target) for p, n in postponed.items()}
    return dict.fromkeys(postponed, options.postpone_default_bucket_num or default)

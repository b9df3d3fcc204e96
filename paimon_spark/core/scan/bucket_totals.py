"""What writers need to know of the files of each bucket, computed from the columns of manifest entries."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition
from paimon_spark.core.scan.entry_filter import in_partitions, select_live
from paimon_spark.core.scan.scan import FEW_FILES, live_entries
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import EntryColumns
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BucketTotals:
    """Totals of live files of one bucket that have the same number of buckets in their entries."""

    partition: bytes
    bucket: int
    total_buckets: int
    max_sequence: int
    rows: int


def bucket_totals(
    store: ManifestStore, snapshot: Snapshot | None, partitions: Collection[bytes] | None = None
) -> Iterator[BucketTotals]:
    """Yield the totals of each bucket of some partitions (None: of all): of parts of its files, in any order."""

    def wanted(columns: EntryColumns) -> Mask:
        return np.ones(len(columns.kind), np.bool_) if partitions is None else in_partitions(columns, partitions)

    metas = [] if snapshot is None else store.data_manifests(snapshot)
    if partitions is not None:
        metas = [m for m in metas if may_hold_partition(m, partitions, store.table.partition_types)]
    if sum(m.num_added_files for m in metas) <= FEW_FILES:
        for e in live_entries(store, metas, lambda e: partitions is None or e.partition in partitions):
            yield BucketTotals(e.partition, e.bucket, e.total_buckets, e.file.max_sequence_number, e.file.row_count)
        return
    for found in select_live(store, metas, wanted):
        columns, rows = found.columns, found.rows
        places = np.stack([columns.partition[rows], columns.bucket[rows], columns.total_buckets[rows]]).astype(np.int64)
        order = np.lexsort(places)
        places = places[:, order]
        starts = np.flatnonzero(np.append(True, (places[:, 1:] != places[:, :-1]).any(axis=0)))
        sequences = np.maximum.reduceat(columns.max_sequence[rows][order], starts).tolist()
        counts = np.add.reduceat(columns.rows[rows][order].astype(np.int64), starts).tolist()
        for (partition, bucket, total), sequence, count in zip(
            places[:, starts].T.tolist(), sequences, counts, strict=True
        ):
            yield BucketTotals(columns.partitions[partition], bucket, total, sequence, count)

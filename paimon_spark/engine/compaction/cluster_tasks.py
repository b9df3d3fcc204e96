"""Compaction tasks of clustered append tables, also of idle partitions (docs/spec/semantics.md, A6)."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from paimon_spark.core.compact.clustering import IDLE, ClusterPolicy, newest_below
from paimon_spark.core.compact.task import CompactTask, bucket_vectors, vectors_of
from paimon_spark.core.levels import max_level
from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.row_tracking import has_row_ids, tracks_rows
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.result import ScannedBucket
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import DataFileKey, DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.snapshot import Snapshot

Refs = Mapping[DataFileKey, VectorRef]


def cluster_tasks(
    policy: ClusterPolicy, found: ScannedBucket, refs: Refs, *, full: bool, reason: str | None = None
) -> Iterator[CompactTask]:
    """Yield the tasks that cluster files of a bucket; their `reason` is by default the rule that picked the files."""
    task, vectors = CompactTask.of(found), bucket_vectors(found, refs)
    for unit in policy.pick(_rewritable(policy.table, found), vectors, full=full):
        for group in policy.tasks(unit):
            yield replace(
                task,
                files=group,
                output_level=unit.output_level,
                reason=reason or unit.reason,
                vectors=vectors_of(group, vectors),
            )


def _rewritable(table: Table, found: ScannedBucket) -> list[DataFileMeta]:
    """Return the files of a bucket that may be rewritten; with row tracking, a rewritten file stores row ids."""
    return [f for f in found.files if has_row_ids(f)] if tracks_rows(table) else list(found.files)


def idle_tasks(policy: ClusterPolicy, snapshot: Snapshot | None, partitions: Predicate) -> list[CompactTask]:
    """Return the tasks that cluster idle partitions completely, those without new files for the longest time first.

    Args:
        policy: of the table; nothing is returned without ``clustering.history-partition.idle-to-full-sort``.
        snapshot: the snapshot to compact.
        partitions: the partitions that the statement compacts anyway.
    """
    table, options = policy.table, policy.table.options
    idle_ms = options.duration_ms_or_none("clustering.history-partition.idle-to-full-sort")
    unbucketed = table.bucket_mode is BucketMode.BUCKET_UNAWARE
    if idle_ms is None or not (unbucketed and table.schema.partition_keys):
        return []
    before = wall_clock_millis(int(time.time() * 1000)) - idle_ms
    scanned = scan_buckets(table, snapshot, statistics=True, predicate=TRUE)

    def candidates() -> Iterator[tuple[int, ScannedBucket]]:
        for found in scanned.buckets():
            newest = newest_below(found.files, max_level(found.files, table.stored_options.num_levels))
            if newest is not None and newest < before and not matching_partitions(table, [found.partition], partitions):
                yield newest, found

    most = options.number("clustering.history-partition.limit")
    oldest = heapq.nsmallest(most, candidates(), key=itemgetter(0))
    refs = vector_refs(table, scanned.index_entries)
    return [task for _, found in oldest for task in cluster_tasks(policy, found, refs, full=True, reason=IDLE)]

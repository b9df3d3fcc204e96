"""Reads that merge postponed rows: one split for each bucket of the partitions with such rows.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.postponed import replay_order
from paimon_spark.core.scan.entry_filter import select_live
from paimon_spark.core.scan.pruning import EntryPruner
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.postpone_buckets import bucket_counts, buckets_to_fill, postponed_rows
from paimon_spark.spec.manifest import BucketKey, DataFileKey, DataFileMeta, ManifestEntry
from paimon_spark.spec.predicate import TRUE, Predicate, project
from paimon_spark.spec.snapshot import Snapshot


def with_postponed(
    table: Table,
    snapshot: Snapshot | None,
    condition: Predicate,
    splits: Sequence[Split],
    buckets: Collection[int] | None = None,
    created_from: int | None = None,
) -> list[Split]:
    """Return the splits of a query; those of partitions with postponed rows are replaced if these rows are read.

    Each of the latter has all files of one bucket, because any of their rows may be superseded by a postponed one.

    Args:
        table: the table.
        snapshot: the snapshot to read.
        condition: the filter of the query.
        splits: the splits of the files in buckets.
        buckets: only these buckets.
        created_from: only files created since this time, given as creation times are stored.
    """
    if snapshot is None or not table.merges_postponed:
        return list(splits)
    store = ManifestStore(table)
    live = _live(store, snapshot, project(condition, table.schema.partition_keys))
    if created_from is not None:
        live = [e for e in live if (e.file.creation_time or -1) >= created_from]
    partitions = {e.partition for e in live if e.bucket < 0}
    if not partitions:
        return list(splits)
    own = [e for e in live if e.partition in partitions]
    waiting = [e for e in own if e.bucket < 0]
    counts = buckets_to_fill(table.options, postponed_rows(waiting), 1) | bucket_counts(own)
    ordered: dict[bytes, list[DataFileMeta]] = {}
    for e in replay_order(store, snapshot, waiting):
        ordered.setdefault(e.partition, []).append(e.file)
    kept = [s for s in splits if s.partition not in partitions]
    stored: dict[BucketKey, list[DataFileMeta]] = defaultdict(list)
    for e in own:
        stored[e.bucket_key].append(e.file)
    vectors = vector_refs(table, store.index_entries(snapshot))
    for partition in sorted(partitions):
        for bucket in range(counts[partition]):
            if buckets is None or bucket in buckets:
                key = BucketKey(partition, bucket)
                files = stored[key]
                kept.append(_split(snapshot, key, counts[partition], files, ordered[partition], vectors))
    return kept


def _live(store: ManifestStore, snapshot: Snapshot, wanted: Predicate) -> list[ManifestEntry]:
    """Return the live entries of some partitions, postponed ones included."""
    pruner = replace(EntryPruner.of(store.table, wanted, TRUE, None, None), postponed=True)
    near = [m for m in store.data_manifests(snapshot) if pruner.may_match(m)]
    return [e for found in select_live(store, near, pruner.selected) for e in store.entries(found.manifest, found.rows)]


def _split(
    snapshot: Snapshot,
    key: BucketKey,
    total_buckets: int,
    files: Sequence[DataFileMeta],
    postponed: Sequence[DataFileMeta],
    vectors: Mapping[DataFileKey, VectorRef],
) -> Split:
    """Return the split of all files of a bucket."""
    refs = tuple(vectors.get(DataFileKey(*key, f.file_name)) for f in files)
    return Split(
        partition=key.partition,
        bucket=key.bucket,
        total_buckets=total_buckets,
        files=tuple(files),
        raw=False,
        snapshot_id=snapshot.id,
        vectors=refs if any(refs) else (),
        postponed=tuple(postponed),
    )

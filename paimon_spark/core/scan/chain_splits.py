"""Splits of a chain table: partitions of the snapshot branch, and the deltas that are merged into them.

A file is described as one of the delta branch: with its own path, and a schema id that `FileSchemas` finds in the
branch that wrote it (docs/spec/semantics.md, Y9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paimon_spark.core.file_schemas import of_snapshot_branch
from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.entry_filter import select_live
from paimon_spark.core.scan.result import Scan, ScanCounts, ScannedBucket
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Split, key_range_groups, known_rows, needs_no_merge, vectors_of
from paimon_spark.core.table import Table
from paimon_spark.errors import UsageError
from paimon_spark.spec.chain_tables import Chain
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.predicate import TRUE, Predicate, and_, is_partition, or_, project
from paimon_spark.spec.snapshot import Snapshot

_MOST_NAMED = 64
"""Maximum number of partitions that a scan is asked for by name; otherwise it reads all."""


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch at one snapshot."""

    table: Table
    snapshot: Snapshot | None

    def partitions(self) -> frozenset[bytes]:
        """Return the partitions with files; postponed files count if queries return their rows."""
        if self.snapshot is None:
            return frozenset()
        store, found = ManifestStore(self.table), set[bytes]()
        lowest = POSTPONE_BUCKET if self.table.merges_postponed else 0
        for some in select_live(store, store.data_manifests(self.snapshot), lambda columns: columns.bucket >= lowest):
            columns = some.columns
            found.update(columns.partitions[i] for i in np.unique(columns.partition[some.rows]).tolist())
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a read needs of the buckets: a filter on keys, some buckets, some levels."""

    keys: Predicate = TRUE
    buckets: Collection[int] | None = None
    levels: Collection[int] | None = None


_Placed = tuple[DataFileMeta, VectorRef | None]


@dataclass(slots=True)
class _Files:
    """The files of the partitions of one branch, by partition and bucket, as those of the delta branch."""

    by_bucket: dict[bytes, dict[int, list[_Placed]]]
    totals: dict[bytes, int]
    counts: ScanCounts


def chain_splits(
    reader: Table,
    snapshots: BranchState,
    deltas: BranchState,
    chains: Sequence[Chain],
    wanted: Selection,
    *,
    always_merge: bool,
) -> tuple[list[Split], ScanCounts]:
    """Return the splits of merged partitions, and what was scanned for them.

    Args:
        reader: the table that reads the splits: the delta branch.
        snapshots: the snapshot branch.
        deltas: the delta branch.
        chains: the partitions to merge.
        wanted: what is read of them; a filter on values would hide the newest version of a key.
        always_merge: create no raw splits, for readers that need retracts.

    Raises:
        UsageError: partitions to merge have different numbers of buckets.
    """
    anchors = {c.anchor for c in chains if c.anchor is not None}
    full = _files(snapshots, anchors, wanted, of_snapshots=True)
    changes = _files(deltas, {p for c in chains for p in c.deltas}, wanted, of_snapshots=False)
    splits = [
        split
        for chain in chains
        for split in _splits(reader, chain, full, changes, snapshot_id=_id(deltas), always_merge=always_merge)
    ]
    seen = full.counts.files_seen + changes.counts.files_seen
    counts = ScanCounts(
        files_seen=seen,
        files=sum(s.file_count for s in splits),
        partitions_seen=changes.counts.partitions_seen,
        partitions=len({s.partition for s in splits}),
        rows=sum(s.file_rows for s in splits),
    )
    return splits, counts


def _id(branch: BranchState) -> int:
    return branch.snapshot.id if branch.snapshot is not None else 0


def _files(branch: BranchState, partitions: Collection[bytes], wanted: Selection, *, of_snapshots: bool) -> _Files:
    found = _Files({}, {}, ScanCounts())
    if branch.snapshot is None or not partitions:
        return found
    table = branch.table
    scanned: Scan = scan_buckets(
        table,
        branch.snapshot,
        statistics=True,
        predicate=and_(wanted.keys, _one_of(table, partitions)),
        buckets=wanted.buckets,
        levels=wanted.levels,
        visible_only=True,
    )
    found.counts = scanned.counts
    vectors = vector_refs(table, scanned.index_entries)
    for bucket in scanned.buckets():
        if bucket.partition in partitions:
            refs = vectors_of(bucket, bucket.files, vectors) or (None,) * len(bucket.files)
            placed = [
                (_as_delta(table, bucket, f, of_snapshots=of_snapshots), v)
                for f, v in zip(bucket.files, refs, strict=True)
            ]
            found.by_bucket.setdefault(bucket.partition, {}).setdefault(bucket.bucket, []).extend(placed)
            found.totals[bucket.partition] = bucket.total_buckets
    return found


def _one_of(table: Table, partitions: Collection[bytes]) -> Predicate:
    if len(partitions) > _MOST_NAMED:
        return TRUE
    names = table.schema.partition_keys
    return or_(
        *(
            and_(*(is_partition(n, v) for n, v in zip(names, table.partition_values(p), strict=True)))
            for p in sorted(partitions)
        )
    )


def _as_delta(table: Table, bucket: ScannedBucket, file: DataFileMeta, *, of_snapshots: bool) -> DataFileMeta:
    path = table.paths.data_file(bucket.partition, bucket.bucket, file)
    schema_id = of_snapshot_branch(file.schema_id) if of_snapshots else file.schema_id
    return replace(file, external_path=path, schema_id=schema_id)


def _splits(
    reader: Table, chain: Chain, full: _Files, changes: _Files, *, snapshot_id: int, always_merge: bool
) -> Iterator[Split]:
    sources = [(changes, p) for p in chain.deltas]
    if chain.anchor is not None:
        sources.insert(0, (full, chain.anchor))
    totals = {files.totals[p]: p for files, p in sources if p in files.totals}
    if len(totals) > 1:
        raise _other_buckets(reader, chain, totals)
    total = next(iter(totals), 0)
    for bucket, placed in sorted(_joined(files.by_bucket.get(p, {}) for files, p in sources).items()):
        vectors = {file.file_name: v for file, v in placed if v is not None}
        for group in _groups(reader, [file for file, _ in placed]):
            refs = tuple(vectors.get(f.file_name) for f in group)
            raw = not always_merge and needs_no_merge(group)
            yield Split(
                partition=chain.partition,
                bucket=bucket,
                total_buckets=total,
                files=tuple(group),
                raw=raw,
                snapshot_id=snapshot_id,
                row_count=known_rows(group, refs) if raw else None,
                vectors=refs if any(v is not None for v in refs) else (),
                chained=True,
            )


def _joined(parts: Iterable[Mapping[int, list[_Placed]]]) -> dict[int, list[_Placed]]:
    joined: dict[int, list[_Placed]] = {}
    for part in parts:
        for bucket, placed in part.items():
            joined.setdefault(bucket, []).extend(placed)
    return joined


def _groups(reader: Table, files: list[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
    whole = not reader.options.flag("chain-table.split.key-range-enabled")
    return iter([files]) if whole else key_range_groups(reader, files)


def _other_buckets(reader: Table, chain: Chain, totals: Mapping[int, bytes]) -> UsageError:
    counts = ", ".join(f"{total} in {reader.partition_text(p)}" for total, p in sorted(totals.items()))
    return UsageError(
        f"The partition {reader.partition_text(chain.partition)} of table {reader.identifier.base.full_name} cannot be "
        f"merged: its sources have different numbers of buckets: {counts}.",
        hint="Call sys.rescale for the partitions of the branch with another number of buckets.",
    )


def key_filter(table: Table, condition: Predicate) -> Predicate:
    """Return the conditions of a filter on the columns of the primary key besides the partition."""
    return project(condition, table.schema.trimmed_primary_keys)

"""Splits of changes: the files that commits added, and the files that two snapshots do not have in common.

(docs/spec/semantics.md, section 12)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from paimon_spark.core.bin_packing import bin_packed
from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.levels import sections
from paimon_spark.core.metadata.change_range import ChangeRange, CommitRange, StateRange
from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import anchors, evolves, is_blob_file, is_vector_file, row_ranges
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.scan.pruning import EntryPruner, StatisticsFilter
from paimon_spark.core.scan.result import ScanCounts, ScannedBucket
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Difference, Split, known_rows
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.kinds import ChangeSource, CommitKind, FileKind
from paimon_spark.spec.manifest import BucketKey, DataFileKey, DataFileMeta, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.predicate import TRUE, AlwaysTrue, Predicate, project
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import AtomicType, TypeRoot

_FileIdentity = tuple[str, int]
"""Name and level: a file that a compaction moved to another level may no longer be merged with the same files."""
_COMMITS_AT_ONCE = 64
_READ_KINDS = {
    ChangeSource.DELTA: (CommitKind.APPEND,),
    ChangeSource.CHANGELOG: tuple(CommitKind),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """The requested changes: those that match `predicate`, in some `buckets`; None is all."""

    predicate: Predicate = TRUE
    buckets: Collection[int] | None = None


@dataclass(frozen=True, slots=True)
class CommitRead:
    """Which files of a commit are read as its changes.

    Attributes:
        source: data files or changelog files.
        drop_retracts: leave out -U and -D; otherwise they are returned as rows.
        overwrites: whether the new files of an overwrite count, too.
        postponed: read postponed rows as they were written; otherwise a commit of them is refused.
    """

    source: ChangeSource
    drop_retracts: bool = False
    overwrites: bool = False
    postponed: bool = False


def plan_changes(
    table: Table, changes: ChangeRange, wanted: ChangeFilter, *, drop_retracts: bool = False
) -> tuple[list[Split], ScanCounts]:
    """Return the splits of changes, and how many files they have.

    Args:
        table: the table at the schema that the changes are read with.
        changes: the range of changes.
        wanted: the filter of the changes.
        drop_retracts: leave out -U and -D; otherwise they are returned as rows.
    """
    if isinstance(changes, CommitRange):
        splits = _commit_splits(table, changes, wanted, drop_retracts=drop_retracts)
    elif table.is_primary_key_table:
        splits = _difference_splits(table, changes, wanted)
    else:
        splits = _added_splits(table, changes, wanted)
    buckets = {(s.partition, s.bucket) for s in splits}
    partitions = len({p for p, _ in buckets})
    files, rows = sum(s.file_count for s in splits), sum(s.file_rows for s in splits)
    counts = ScanCounts(files_seen=files, files=files, partitions_seen=partitions, partitions=partitions, rows=rows)
    return splits, counts


# ------------------------------------------------------------------------------------------------- commits


def commit_splits(table: Table, snapshot: Snapshot, how: CommitRead, wanted: ChangeFilter) -> list[Split]:
    """Return the smallest splits of one commit, in the order of partition and bucket, then of the commit.

    They depend on nothing but the commit and the filter, so that the number of a split is the same in every plan.
    """
    found: dict[BucketKey, list[ManifestEntry]] = {}
    for entry in _Commits(table, wanted, how).entries_of(how.source, snapshot):
        found.setdefault(entry.bucket_key, []).append(entry)
    whole = how.source is ChangeSource.CHANGELOG  # the rows of an update pair may be in two files
    out: list[Split] = []
    for key in sorted(found):
        files = [e.file for e in found[key]]
        groups = [files] if whole else _alone(table, files)
        out += [
            _change_split(table, key, found[key][0], g, snapshot.id, drop_retracts=how.drop_retracts) for g in groups
        ]
    return out


def _change_split(
    table: Table, key: BucketKey, entry: ManifestEntry, files: Sequence[DataFileMeta], to: int, *, drop_retracts: bool
) -> Split:
    drops = drop_retracts and table.is_primary_key_table and any(f.delete_row_count != 0 for f in files)
    raw = not drops and not evolves(table) and key.bucket != POSTPONE_BUCKET  # whose rows need their order
    return Split(
        partition=key.partition,
        bucket=key.bucket,
        total_buckets=entry.total_buckets,
        files=tuple(files),
        raw=raw,
        snapshot_id=to,
        row_count=sum(f.row_count for f in anchors(table, files)) if raw or evolves(table) else None,
        unmerged=True,
    )


def _commit_splits(table: Table, changes: CommitRange, wanted: ChangeFilter, *, drop_retracts: bool) -> list[Split]:
    found: dict[BucketKey, list[tuple[int, ManifestEntry]]] = {}
    commits = _Commits(table, wanted)
    for first in range(changes.after + 1, changes.to + 1, _COMMITS_AT_ONCE):
        ids = range(first, min(first + _COMMITS_AT_ONCE, changes.to + 1))
        for snapshot_id, added in zip(ids, in_parallel(partial(commits.entries, changes.source), ids), strict=True):
            for entry in added:
                found.setdefault(entry.bucket_key, []).append((snapshot_id, entry))
    out: list[Split] = []
    for key, entries in found.items():
        # The rows of an update pair may be in two files of one commit.
        whole = changes.source is ChangeSource.CHANGELOG
        together = _by_commit(entries) if whole else _alone(table, [e.file for _, e in entries])
        one = entries[0][1]
        out += [
            _change_split(table, key, one, files, changes.to, drop_retracts=drop_retracts)
            for files in _packed(table, together)
        ]
    return out


def _alone(table: Table, files: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
    """Return the files one by one, or those of each row range."""
    return [list(r.files) for r in row_ranges(files)] if evolves(table) else [[f] for f in files]


def _check_new_rows(table: Table, before: Snapshot | None, snapshot_id: int, added: Iterable[DataFileMeta]) -> None:
    """Reject files with new values of rows that were in the table before."""
    if not evolves(table):
        return
    schemas = FileSchemas(table)
    first_new = before.next_row_id if before is not None else None
    for file in added:
        old = first_new is not None and file.first_row_id is not None and file.first_row_id < first_new
        if old or (before is None and _lacks_columns(table, schemas.of(file.schema_id), file)):
            raise UnsupportedError(
                f"Snapshot {snapshot_id} of table {table.name} has new values of rows that were there before, in the "
                f"file {file.file_name}: they are not read as changes.",
                hint="Read the table itself at both snapshots.",
            )


def _lacks_columns(table: Table, written: TableSchema, file: DataFileMeta) -> bool:
    """Return whether a file has only some of the columns that its rows began with, as one of new values has."""
    if file.write_cols is None or is_blob_file(file) or is_vector_file(file):
        return False
    plain = {f.name for f in written.fields if isinstance(f.type, AtomicType) and f.type.root is not TypeRoot.BLOB}
    return not plain - set(table.schema.partition_keys) <= set(file.write_cols)


def _by_commit(entries: Iterable[tuple[int, ManifestEntry]]) -> list[list[DataFileMeta]]:
    commits: dict[int, list[DataFileMeta]] = {}
    for snapshot_id, entry in entries:
        commits.setdefault(snapshot_id, []).append(entry.file)
    return list(commits.values())


def _packed(table: Table, items: Iterable[list[DataFileMeta]]) -> Iterator[list[DataFileMeta]]:
    target, cost = table.options.source_split_target_size, table.options.source_split_open_file_cost
    for together in bin_packed(items, lambda files: sum(f.file_size for f in files), target, cost):
        yield [f for files in together for f in files]


class _Commits:
    """The files that single commits added."""

    def __init__(self, table: Table, wanted: ChangeFilter, how: CommitRead | None = None) -> None:
        self._store = ManifestStore(table)
        self._overwrites = how is not None and how.overwrites
        self._predicate = wanted.predicate
        pruner = EntryPruner.of(table, TRUE, wanted.predicate, wanted.buckets, None)
        self._pruner = replace(pruner, postponed=how is not None and how.postponed)
        self._statistics = StatisticsFilter(table)

    def entries(self, source: ChangeSource, snapshot_id: int) -> list[ManifestEntry]:
        """Return the entries of one commit, in order, that may have matching rows.

        Raises:
            NotFoundError: the snapshot does not exist.
            UnsupportedError: the commit replaced files although it only appended rows.
        """
        return self.entries_of(source, self._store.table.snapshots.get(snapshot_id))

    def entries_of(self, source: ChangeSource, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return what `entries` does for a snapshot, which may also be a long-lived changelog."""
        overwrites = self._overwrites and snapshot.commit_kind is CommitKind.OVERWRITE
        if not overwrites and snapshot.commit_kind not in _READ_KINDS[source]:
            return []
        near = (m for m in self._manifests(snapshot, source) if self._pruner.may_match(m))
        added = [e for m in near for e in self._added(m, replaces=overwrites)]
        if evolves(self._store.table):
            before = self._store.table.snapshots.find(snapshot.id - 1)
            _check_new_rows(self._store.table, before, snapshot.id, (e.file for e in added))
        return added

    def _added(self, meta: ManifestFileMeta, *, replaces: bool) -> list[ManifestEntry]:
        manifest = self._store.open(meta)
        columns = manifest.entry_columns()
        rows = np.flatnonzero(self._pruner.selected(columns))
        if replaces:
            rows = rows[columns.kind[rows] == FileKind.ADD]
        if not self._pruner.postponed and (columns.bucket == POSTPONE_BUCKET).any():
            raise UnsupportedError(
                f"Rows of table {self._store.table.name} were postponed, so that they are not read as changes of the "
                "commits that wrote them.",
                hint="Compare the snapshots: set 'incremental-between-scan-mode' = 'diff'.",
            )
        if (columns.kind[rows] != FileKind.ADD).any():
            raise UnsupportedError(
                f"A commit of table {self._store.table.name} that appends rows also replaces files, by the manifest "
                f"{meta.file_name}: its changes are not those of its files.",
                hint="Compare the snapshots: set 'incremental-between-scan-mode' = 'diff'.",
            )
        entries = list(self._store.entries(manifest, rows))
        if isinstance(self._predicate, AlwaysTrue) or evolves(self._store.table):
            return entries
        found = [e for e in entries if e.bucket != POSTPONE_BUCKET]
        kept = {found[place].identity for place, may in self._statistics.test(found, self._predicate) if may}
        return [e for e in entries if e.bucket == POSTPONE_BUCKET or e.identity in kept]

    def _manifests(self, snapshot: Snapshot, source: ChangeSource) -> Sequence[ManifestFileMeta]:
        if source is ChangeSource.DELTA:
            return self._store.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        if snapshot.changelog_manifest_list is None:
            return ()
        return self._store.read_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)


# ------------------------------------------------------------------------------------------------- states


class _StateFile(NamedTuple):
    """A file of a state, its location, and its deleted rows."""

    file: DataFileMeta
    bucket: int
    vector: VectorRef | None


@dataclass(frozen=True, slots=True)
class _State:
    """The buckets of one snapshot, and the deletion vectors of their files."""

    snapshot_id: int
    buckets: dict[BucketKey, ScannedBucket]
    vectors: dict[DataFileKey, VectorRef]

    @classmethod
    def of(cls, table: Table, snapshot: Snapshot | None, predicate: Predicate, wanted: ChangeFilter) -> _State:
        found = scan_buckets(table, snapshot, statistics=False, predicate=predicate, buckets=wanted.buckets)
        buckets = {BucketKey(b.partition, b.bucket): b for b in found.buckets()}
        return cls(snapshot.id if snapshot else 0, buckets, vector_refs(table, found.index_entries))

    def take(self, keys: Iterable[BucketKey]) -> dict[_FileIdentity, _StateFile]:
        """Return the files of some buckets, and drop them from this object."""
        out = {}
        for key in keys:
            bucket = self.buckets.pop(key, None)
            for f in bucket.files if bucket is not None else ():
                vector = self.vectors.get(DataFileKey(*key, f.file_name))
                out[f.file_name, f.level] = _StateFile(f, key.bucket, vector)
        return out

    def splits(self, partition: bytes, files: Iterable[_StateFile]) -> Iterator[Split]:
        """Yield a split for each bucket with some of `files`."""
        of_bucket: dict[int, list[_StateFile]] = {}
        for found in files:
            of_bucket.setdefault(found.bucket, []).append(found)
        for bucket, members in of_bucket.items():
            refs = tuple(f.vector for f in members)
            yield Split(
                partition=partition,
                bucket=bucket,
                total_buckets=0,
                files=tuple(f.file for f in members),
                raw=False,
                snapshot_id=self.snapshot_id,
                vectors=refs if any(v is not None for v in refs) else (),
            )


def _difference_splits(table: Table, changes: StateRange, wanted: ChangeFilter) -> list[Split]:
    """Return splits of disjoint key ranges, each with the files of both sides that the other side does not have.

    Only conditions on the key may leave out files: one on another column could leave out the row of one side only.
    """
    schema = table.schema
    if has_unsorted_keys(table):
        raise UnsupportedError(
            f"Two states of table {table.name} cannot be compared: with 'pk-clustering-override' = 'true' its files "
            "are not sorted by key.",
            hint="Set 'incremental-between-scan-mode' = 'delta', which returns the rows as they were written.",
        )
    on_keys = project(wanted.predicate, (*schema.partition_keys, *schema.trimmed_primary_keys))
    states = [_State.of(table, s, on_keys, wanted) for s in (changes.before, changes.after)]
    out: list[Split] = []
    for group in _bucket_groups(states):
        sides = [state.take(group) for state in states]
        common = {k for k in sides[0].keys() & sides[1].keys() if sides[0][k] == sides[1][k]}
        differing = [{k: f for k, f in side.items() if k not in common} for side in sides]
        files = [f.file for f in (differing[0] | differing[1]).values()]
        ranges = ([f for run in section for f in run.files] for section in sections(files, table.key_types))
        for together in _packed(table, ranges):
            keys = [(f.file_name, f.level) for f in together]
            before, after = (
                tuple(state.splits(group[0].partition, [side[k] for k in keys if k in side]))
                for state, side in zip(states, differing, strict=True)
            )
            out.append(_difference(Difference(before, after), changes.after.id))
    return out


def _difference(found: Difference, snapshot_id: int) -> Split:
    first = found.splits[0]
    return replace(first, files=(), vectors=(), snapshot_id=snapshot_id, difference=found)


def _bucket_groups(states: Sequence[_State]) -> list[list[BucketKey]]:
    """Return the buckets of the states, those of a partition together if it was rescaled in between."""
    partitions: dict[bytes, list[BucketKey]] = {}
    for key in dict.fromkeys(k for s in reversed(states) for k in s.buckets):
        partitions.setdefault(key.partition, []).append(key)
    out: list[list[BucketKey]] = []
    for keys in partitions.values():
        totals = {s.buckets[k].total_buckets for s in states for k in keys if k in s.buckets}
        out += [keys] if len(totals) > 1 else [[k] for k in keys]
    return out


def _added_splits(table: Table, changes: StateRange, wanted: ChangeFilter) -> list[Split]:
    """Return the splits of an append table's files that only the later state has."""
    before, after = (_State.of(table, s, wanted.predicate, wanted) for s in (changes.before, changes.after))
    out: list[Split] = []
    for key in list(after.buckets):
        known = before.take([key])
        added = {name: f for (name, level), f in after.take([key]).items() if (name, level) not in known}
        ordered = sorted((f.file for f in added.values()), key=lambda f: (f.min_sequence_number, f.file_name))
        _check_new_rows(table, changes.before, changes.after.id, ordered)
        for files in _packed(table, _alone(table, ordered)):
            splits = after.splits(key.partition, [added[f.file_name] for f in files])
            raw = not evolves(table)
            out += [replace(s, raw=raw, row_count=known_rows(anchors(table, s.files), s.vectors)) for s in splits]
    return out

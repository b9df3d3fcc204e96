"""The changes of one snapshot, derived from commit messages: entries in order, index changes, kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.levels import sections
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import BucketMode, CommitKind, FileKind
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    BucketKey,
    DataFileKey,
    DataFileMeta,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Everything that one snapshot adds and removes. Index changes carry their kind; removals come first."""

    kind: CommitKind
    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index_changes: tuple[IndexManifestEntry, ...] = ()
    vectors_seen: Mapping[DataFileKey, int] = field(default_factory=dict)
    """Fingerprints of the deletion vectors that the change relies on; a file that is not named had none."""
    statistics: str | None = None
    """The new statistics file of the table; None keeps that of the base."""
    readds_files: bool = False
    """Some of the added files were removed by an earlier commit; see `SnapshotBuilder`."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        return not (self.entries or self.changelog or self.index_changes or self.statistics)

    @property
    def partitions(self) -> set[bytes]:
        """Return the partitions whose data files change, or lose rows."""
        return {e.partition for e in self.entries} | {key.partition for key in self.data_files_with_new_vectors}

    @property
    def data_files_with_new_vectors(self) -> set[DataFileKey]:
        """Return the data files that get a deletion vector."""
        return {
            DataFileKey(e.partition, e.bucket, r.data_file)
            for e in self.index_changes
            if e.kind is FileKind.ADD
            for r in e.file.deletion_ranges or ()
        }

    @property
    def removed(self) -> set[DataFileKey]:
        """Return the data files that are removed; a file that is added again at another level is not."""
        back = {DataFileKey(e.partition, e.bucket, e.file.file_name) for e in self.entries if e.kind is FileKind.ADD}
        gone = {DataFileKey(e.partition, e.bucket, e.file.file_name) for e in self.entries if e.kind is FileKind.DELETE}
        return gone - back

    @property
    def needs_check(self) -> bool:
        """Return whether the change relies on files that another commit may have removed."""
        return self.kind is not CommitKind.APPEND or any(e.kind is FileKind.DELETE for e in self.index_changes)


def append_part(messages: Iterable[CommitMessage]) -> Change:
    """Return the changes of the writers: new files, removed files and changelog of the write.

    A change that removes files or touches deletion vectors is an OVERWRITE.
    """
    items = list(messages)
    removed = [e for m in items for e in _entries(m, FileKind.DELETE, m.deleted_files)]
    added = [e for m in items for e in _entries(m, FileKind.ADD, m.new_files)]
    changelog = [e for m in items for e in _entries(m, FileKind.ADD, m.new_changelog)]
    index_changes = _index_changes(m for m in items if not _only_compacts(m))
    vectors = any(c.file.index_type == DELETION_VECTORS_INDEX for c in index_changes)
    kind = CommitKind.OVERWRITE if removed or vectors else CommitKind.APPEND
    return Change(
        kind=kind,
        entries=(*removed, *added),
        changelog=tuple(changelog),
        index_changes=index_changes,
        vectors_seen=_seen(items),
    )


def compact_part(messages: Iterable[CommitMessage]) -> Change:
    """Return the changes of compactions in the same messages."""
    items = list(messages)
    removed = [e for m in items for e in _entries(m, FileKind.DELETE, m.compact_before)]
    added = [e for m in items for e in _entries(m, FileKind.ADD, m.compact_after)]
    changelog = [e for m in items for e in _entries(m, FileKind.ADD, m.compact_changelog)]
    return Change(
        kind=CommitKind.COMPACT,
        entries=(*removed, *added),
        changelog=tuple(changelog),
        index_changes=_index_changes(m for m in items if _only_compacts(m)),
        vectors_seen=_seen(items),
    )


def overwrite_part(
    messages: Iterable[CommitMessage], live: Iterable[ManifestEntry], live_index: Iterable[IndexManifestEntry]
) -> Change:
    """Return a change that replaces all of `live` and `live_index` by the files of the messages; without changelog."""
    items = list(messages)
    added = [e for m in items for e in _entries(m, FileKind.ADD, m.new_files)]
    new_index = [_index_entry(m, FileKind.ADD, f) for m in items for f in m.new_index_files]
    return Change(
        kind=CommitKind.OVERWRITE,
        entries=(*(e.flipped() for e in live), *added),
        index_changes=(*(replace(i, kind=FileKind.DELETE) for i in live_index), *new_index),
    )


def promote_to_top(table: Table, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """Return the messages of an overwrite, with new files moved to the top level where possible.

    That is: level-0 files of one bucket that do not overlap and have no deletes, and no compaction in the message.
    """
    items = list(messages)
    if not table.is_primary_key_table or not table.options.overwrite_upgrade:
        return items
    buckets: dict[BucketKey, list[CommitMessage]] = {}
    for m in items:
        buckets.setdefault(BucketKey(m.partition, m.bucket), []).append(m)
    rising = {place for place, group in buckets.items() if _may_rise(table, group)}
    top = table.stored_options.num_levels - 1
    return [
        replace(m, new_files=tuple(f.upgrade(top) for f in m.new_files))
        if BucketKey(m.partition, m.bucket) in rising
        else m
        for m in items
    ]


def _may_rise(table: Table, messages: Sequence[CommitMessage]) -> bool:
    files = [f for m in messages for f in m.new_files]
    if messages[0].bucket < 0 or any(m.compact_before or m.compact_after for m in messages):
        return False
    if any(f.level != 0 or f.delete_row_count != 0 for f in files):
        return False
    return all(len(section) == 1 for section in sections(files, table.key_types))


def combine_index(
    mode: BucketMode, live: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry]
) -> tuple[IndexManifestEntry, ...]:
    """Return the complete index entries after a change.

    Hash indexes, and deletion vectors of bucketed tables, have one file for each (partition, bucket): an added one
    replaces it. All other entries, including unknown kinds, are identified by file name.
    """

    def by_bucket(e: IndexManifestEntry) -> bool:
        vectors = e.file.index_type == DELETION_VECTORS_INDEX and mode is not BucketMode.BUCKET_UNAWARE
        return e.file.index_type == HASH_INDEX or vectors

    gone = {e.file.file_name for e in changes if e.kind is FileKind.DELETE}
    added = [e for e in changes if e.kind is FileKind.ADD]
    replaced = {_index_key(e) for e in added if by_bucket(e)}
    kept = [e for e in live if e.file.file_name not in gone and not (by_bucket(e) and _index_key(e) in replaced)]
    last = {_index_key(e) if by_bucket(e) else e.file.file_name: e for e in added}
    return (*kept, *last.values())


def _index_key(e: IndexManifestEntry) -> tuple[bytes, int, str]:
    return e.partition, e.bucket, e.file.index_type


def _only_compacts(message: CommitMessage) -> bool:
    wrote = message.new_files or message.deleted_files or message.new_changelog
    return not wrote and bool(message.compact_before or message.compact_after or message.compact_changelog)


def _entries(message: CommitMessage, kind: FileKind, files: Iterable[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, f) for f in files]


def _seen(messages: Iterable[CommitMessage]) -> dict[DataFileKey, int]:
    return {DataFileKey(m.partition, m.bucket, name): seen for m in messages for name, seen in m.vectors_seen}


def _index_entry(message: CommitMessage, kind: FileKind, file: IndexFileMeta) -> IndexManifestEntry:
    return IndexManifestEntry(kind, message.partition, message.bucket, file)


def _index_changes(messages: Iterable[CommitMessage]) -> tuple[IndexManifestEntry, ...]:
    items = list(messages)
    removed = [_index_entry(m, FileKind.DELETE, f) for m in items for f in m.deleted_index_files]
    added = [_index_entry(m, FileKind.ADD, f) for m in items for f in m.new_index_files]
    return (*removed, *added)

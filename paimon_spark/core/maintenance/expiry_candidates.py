"""Deletion candidates of a removed snapshot or tag, without checking other references.

After an interrupted run, some metadata of the removed snapshot may be missing. Nothing is then collected from it, and
its files are left to orphan removal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from paimon_spark.core.maintenance.deletion import DeletionCandidates
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import Snapshot

_T = TypeVar("_T")


class ExpiryCandidates:
    """Collects deletion candidates from snapshots."""

    def __init__(self, table: Table) -> None:
        self.candidates = DeletionCandidates()
        self._paths = table.paths
        self._store = ManifestStore(table)

    def add_removed(self, snapshot: Snapshot) -> None:
        """Add the data files that the commit of a snapshot deleted from the table.

        A file that the same commit adds again was only moved to another level, or got another file index, and is left
        out.
        """
        entries = self._or_nothing(lambda: tuple(self._store.delta_entries(snapshot)))
        added = {path for e in entries if e.kind is FileKind.ADD for path in self._all_paths(e)}
        reason = f"removed by snapshot {snapshot.id} ({snapshot.commit_kind})"
        self._add_files((e for e in entries if e.kind is FileKind.DELETE), reason, besides=added)

    def add_changelog(self, snapshot: Snapshot, reason: str) -> None:
        """Add the changelog files of a snapshot's commit."""
        entries = self._or_nothing(lambda: tuple(self._store.changelog_entries(snapshot)))
        self._add_files((e for e in entries if e.kind is FileKind.ADD), reason)

    def add_added(self, snapshot: Snapshot, reason: str) -> None:
        """Add the data files that the commit of a snapshot added to the table."""
        entries = self._or_nothing(lambda: tuple(self._store.delta_entries(snapshot)))
        self._add_files((e for e in entries if e.kind is FileKind.ADD), reason)

    def add_state(self, snapshot: Snapshot, reason: str) -> None:
        """Add all live data files of a snapshot."""
        entries = self._or_nothing(lambda: tuple(live_entries(self._store, self._store.data_manifests(snapshot))))
        self._add_files(entries, reason)

    def add_metadata(self, snapshot: Snapshot, reason: str, *, with_changelog: bool) -> None:
        """Add the manifests, index files and statistics of a snapshot."""
        lists = [
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]
        if with_changelog and snapshot.changelog_manifest_list is not None:
            lists.append((snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size))
        for name, size in lists:
            self._add_list(name, size, reason)
        self._add_index(snapshot, reason)
        if snapshot.statistics is not None:
            self._propose(self._paths.statistics(snapshot.statistics), None, reason)

    def _add_list(self, name: str, size: int | None, reason: str) -> None:
        for meta in self._or_nothing(lambda: self._store.read_list(name)):
            self._propose(self._paths.manifest(meta.file_name), meta.file_size, reason)
        self._propose(self._paths.manifest(name), size, reason)

    def _add_index(self, snapshot: Snapshot, reason: str) -> None:
        if snapshot.index_manifest is None:
            return
        for entry in self._or_nothing(lambda: self._store.read_index(snapshot.index_manifest)):
            path = self._paths.index_file(entry.partition, entry.bucket, entry.file)
            self._propose(path, entry.file.file_size, reason)
        self._propose(self._paths.manifest(snapshot.index_manifest), None, reason)

    def _add_files(self, entries: Iterable[ManifestEntry], reason: str, besides: Collection[str] = ()) -> None:
        for e in entries:
            data, *extras = self._all_paths(e)
            for path, size in ((data, e.file.file_size), *((extra, None) for extra in extras)):
                if path not in besides:
                    self.candidates.data.setdefault(path, (size, reason))

    def _propose(self, path: str, size: int | None, reason: str) -> None:
        self.candidates.metadata.setdefault(path, (size, reason))

    def _all_paths(self, entry: ManifestEntry) -> list[str]:
        return self._paths.file_paths(entry.partition, entry.bucket, entry.file)

    def _or_nothing(self, read: Callable[[], tuple[_T, ...]]) -> tuple[_T, ...]:
        try:
            return read()
        except CorruptTableError as e:
            if e.kind is ErrorKind.FILE_MISSING:
                return ()
            raise

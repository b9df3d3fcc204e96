"""Reachability: which files are referenced by snapshots, tags and long-lived changelogs of all branches.

Names of data, index and metadata files are unique within a table, so files are compared by bare name. Reading is
strict: if the manifests of a protecting reference cannot be read, an error is raised and nothing may be deleted.

Two kinds of files may be missing, because Paimon removes them before their references: changelog manifest lists, and
the data manifest lists of a long-lived changelog. A tag does not protect changelog files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.netting import DeletedEntries
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import ManifestEntry, ManifestFileMeta


def file_names(entry: ManifestEntry) -> tuple[str, ...]:
    """Return the names of all files of an entry: the data file and its extra files."""
    return (entry.file.file_name, *(_bare(extra) for extra in entry.file.extra_files))


class ReadManifests:
    """Manifest entries of the wanted files, kept for a second check: manifests are immutable, only references change.

    Args:
        wanted: bare names of the files; entries of other files are not kept.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self.wanted = frozenset(wanted)
        self.entries: dict[str, list[ManifestEntry]] = {}
        """Entries of wanted files, by manifest name."""


class Reachability:
    """Finds the reference that protects each file. A manifest is read once, even if several references share it.

    Args:
        reader: reads the manifests.
        protecting_refs: references that may protect files.
        known: manifest entries that an earlier check has read.
    """

    def __init__(
        self, reader: ManifestStore, protecting_refs: Iterable[ProtectingRef], known: ReadManifests | None = None
    ) -> None:
        self._reader = reader
        self._holders = tuple(protecting_refs)
        self._known = known

    def metadata_refs(self) -> dict[str, ProtectingRef]:
        """Return the protecting reference of each manifest list, manifest, index file and statistics file."""
        held: dict[str, ProtectingRef] = {}
        for holder in self._holders:
            for name in self._metadata(holder):
                held.setdefault(name, holder)
        return held

    def data_refs(self, wanted: Collection[str]) -> dict[str, ProtectingRef]:
        """Return the reference that protects each data or changelog file in `wanted`, without unprotected files."""
        held: dict[str, ProtectingRef] = {}
        if not wanted:
            return held
        known = self._known
        if known is None or not known.wanted.issuperset(wanted):
            known = ReadManifests(wanted)
        view = _WantedView(self._reader, frozenset(wanted), known, held.keys())
        for holder in self._holders:
            for name in self._data(holder, view):
                held.setdefault(name, holder)
        return held

    def needed_names(self, wanted: Collection[str]) -> set[str]:
        """Return the names in `wanted` that are protected; for very many names: each manifest is read as a stream.

        A file that some manifest adds and none deletes is live in every snapshot that has this manifest. Only files
        that are both added and deleted are looked up by reference, as `data_refs` does.
        """
        lists = dict.fromkeys(name for holder in self._holders for name in self._state_lists(holder))
        metas = {m.file_name: m for name in lists for m in self._list(name) or ()}
        added, deleted = set[str](), set[str]()
        for meta in metas.values():
            for entry in self._reader.open(meta, remember=False).entries():
                names = (n for n in file_names(entry) if n in wanted)
                (added if entry.kind is FileKind.ADD else deleted).update(names)
        doubtful = added & deleted
        found = (added - doubtful) | self._needed_changelogs(wanted)
        return found | self.data_refs(doubtful - found).keys()

    def _state_lists(self, holder: ProtectingRef) -> tuple[str, ...]:
        """Return the manifest lists of the rows of a reference."""
        if holder.kind is RefKind.CHANGELOG:
            return ()
        return (holder.snapshot.base_manifest_list, holder.snapshot.delta_manifest_list)

    def _needed_changelogs(self, wanted: Collection[str]) -> set[str]:
        """Return the names in `wanted` that a changelog needs."""
        metas: dict[tuple[str, bool], ManifestFileMeta] = {}
        for holder in self._holders:
            name, written = _changelog_list(holder)
            listed = self._list(name, tolerant=True) if name is not None else None
            metas |= {(m.file_name, written): m for m in listed or ()}
        found = set[str]()
        for (_, written), meta in metas.items():
            for entry in self._reader.open(meta, remember=False).entries():
                if _is_added(entry, written_only=written):
                    found.update(n for n in file_names(entry) if n in wanted)
        return found

    def _metadata(self, holder: ProtectingRef) -> Iterator[str]:
        snapshot, is_changelog = holder.snapshot, holder.kind is RefKind.CHANGELOG
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            metas = self._list(name, tolerant=is_changelog)
            if metas is not None:
                yield name
                yield from (m.file_name for m in metas)
        if snapshot.changelog_manifest_list is not None and holder.kind is not RefKind.TAG:
            yield snapshot.changelog_manifest_list
            metas = self._list(snapshot.changelog_manifest_list, tolerant=True)
            yield from (m.file_name for m in metas or ())
        if is_changelog:
            return
        if snapshot.index_manifest is not None:
            yield snapshot.index_manifest
            yield from (_bare(e.file.file_name) for e in self._reader.read_index(snapshot.index_manifest))
        if snapshot.statistics is not None:
            yield snapshot.statistics

    def _data(self, holder: ProtectingRef, view: _WantedView) -> Iterator[str]:
        if holder.kind is not RefKind.CHANGELOG:
            yield from view.live(m for name in self._state_lists(holder) for m in self._list(name) or ())
        name, written = _changelog_list(holder)
        if name is not None:
            yield from view.added(self._list(name, tolerant=True) or (), written_only=written)

    def _list(self, name: str, *, tolerant: bool = False) -> tuple[ManifestFileMeta, ...] | None:
        try:
            return self._reader.read_list(name)
        except CorruptTableError as e:
            if tolerant and e.kind is ErrorKind.FILE_MISSING:
                return None
            raise


class _WantedView:
    """The entries of wanted files in each manifest, without those of files that are found to be protected already.

    Most files are protected by the first reference, so they are not looked at for each of the others.
    """

    def __init__(
        self, reader: ManifestStore, wanted: frozenset[str], known: ReadManifests, held: Collection[str]
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._known = known
        self._held = held
        self._left: dict[str, list[ManifestEntry]] = {}

    def live(self, metas: Iterable[ManifestFileMeta]) -> set[str]:
        """Return the wanted names that are live after all manifests together."""
        entries = [e for meta in metas for e in self._entries(meta)]
        return self._names(DeletedEntries(entries).live(entries))

    def added(self, metas: Iterable[ManifestFileMeta], *, written_only: bool = False) -> set[str]:
        """Return the wanted names that the manifests add; `written_only` leaves out files of compactions."""
        return self._names(e for meta in metas for e in self._entries(meta) if _is_added(e, written_only=written_only))

    def _entries(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        entries = self._left.get(meta.file_name)
        if entries is None:
            entries = self._read(meta)
        left = [e for e in entries if not all(name in self._held for name in file_names(e))]
        self._left[meta.file_name] = left
        return left

    def _read(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        known = self._known
        found = known.entries.get(meta.file_name)
        if found is None:
            entries = self._reader.read(meta)
            found = known.entries[meta.file_name] = [e for e in entries if not known.wanted.isdisjoint(file_names(e))]
        return found

    def _names(self, entries: Iterable[ManifestEntry]) -> set[str]:
        return {n for e in entries for n in file_names(e) if n in self._wanted}


def _changelog_list(holder: ProtectingRef) -> tuple[str | None, bool]:
    """Return the manifest list with the changes of a reference, and whether only written files of it count."""
    snapshot = holder.snapshot
    if holder.kind is RefKind.TAG:
        return None, False
    if snapshot.changelog_manifest_list is None and holder.kind is RefKind.CHANGELOG:
        return snapshot.delta_manifest_list, True
    return snapshot.changelog_manifest_list, False


def _is_added(entry: ManifestEntry, *, written_only: bool) -> bool:
    compacted = written_only and entry.file.file_source is FileSource.COMPACT
    return entry.kind is FileKind.ADD and not compacted


def _bare(name: str) -> str:
    return name.rsplit("/", 1)[-1]

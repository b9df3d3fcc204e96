"""Selection of live manifest entries by columns, before any of them is decoded to an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import EntryColumns, Manifest, Rows
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import FileIdentity, ManifestEntry, ManifestFileMeta

EntryFilter = Callable[[EntryColumns], Mask]


@dataclass(slots=True)
class ScanTotals:
    """The counts of the entries to select from."""

    files: int = 0
    partitions: set[bytes] = field(default_factory=set)

    def add(self, columns: EntryColumns, live: Mask) -> None:
        """Count the live entries of a manifest."""
        self.files += int(live.sum())
        self.partitions.update(columns.partitions[i] for i in np.unique(columns.partition[live]).tolist())


@dataclass(frozen=True, slots=True)
class SelectedEntries:
    """Some live entries of one manifest."""

    manifest: Manifest
    columns: EntryColumns
    rows: Rows


def select_live(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], wanted: EntryFilter, seen: ScanTotals | None = None
) -> Iterator[SelectedEntries]:
    """Yield, manifest by manifest, the selected ADD entries that no DELETE among the manifests cancels.

    Args:
        store: reads the manifests.
        metas: the manifests, in order.
        wanted: selects entries by their columns.
        seen: counts all live entries, selected or not; without it only selected ones are netted.
    """
    remember = store.cache.fits(metas)
    netted = None if seen is not None else wanted
    deleted = _DeletedRows(
        identity
        for manifest, columns, rows in _deletes(store, metas, netted, remember=remember)
        for _, identity in _identities(manifest, columns, rows)
    )
    for meta in metas:
        if meta.num_added_files == 0:
            continue
        manifest = store.open(meta, remember=remember)
        columns = manifest.entry_columns()
        chosen = wanted(columns)
        live = (columns.kind == FileKind.ADD) & (chosen if seen is None else columns.bucket >= 0)
        live[deleted.among(manifest, columns, live)] = False
        if seen is not None:
            seen.add(columns, live)
            live &= chosen
        rows = np.flatnonzero(live)
        if len(rows):
            yield SelectedEntries(manifest, columns, rows)


def deleted_entries(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], wanted: EntryFilter | None, *, remember: bool = True
) -> Iterator[ManifestEntry]:
    """Yield the wanted DELETE entries; without `wanted`, all. `remember` keeps the manifests in the cache."""
    for manifest, _, rows in _deletes(store, metas, wanted, remember=remember):
        yield from store.entries(manifest, rows)


def _deletes(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], wanted: EntryFilter | None, *, remember: bool
) -> Iterator[tuple[Manifest, EntryColumns, Rows]]:
    """Yield the manifests that have DELETE entries, and the positions of those wanted."""
    for meta in metas:
        if meta.num_deleted_files > 0:
            manifest = store.open(meta, remember=remember)
            columns = manifest.entry_columns()
            deletes = columns.kind == FileKind.DELETE
            yield manifest, columns, np.flatnonzero(deletes if wanted is None else deletes & wanted(columns))


def _identities(manifest: Manifest, columns: EntryColumns, rows: Rows) -> Iterator[tuple[int, FileIdentity]]:
    """Yield some positions, and the identities of the entries there; few entries have to be decoded for it."""
    plain = columns.plain[rows].astype(bool)
    chosen, others = rows[plain], rows[~plain]
    places = (columns.partition[chosen], columns.bucket[chosen], columns.level[chosen])
    named = zip(manifest.names(chosen), *(p.tolist() for p in places), strict=True)
    for (row, name), partition, bucket, level in named:
        yield row, FileIdentity(columns.partitions[partition], bucket, level, name, (), None, None)
    for row, entry in zip(others.tolist(), manifest.entries(others), strict=True):
        yield row, entry.identity


class _DeletedRows:
    """Finds the rows of manifests that DELETE entries cancel, by the identities of these."""

    def __init__(self, deleted: Iterable[FileIdentity]) -> None:
        self._identities = set(deleted)
        self._partitions = {i.partition for i in self._identities}
        self._buckets = list({i.bucket for i in self._identities})
        self._names = {i.file_name for i in self._identities}

    def among(self, manifest: Manifest, columns: EntryColumns, live: Mask) -> Rows:
        """Return which of the live entries of a manifest are deleted."""
        if not self._identities:
            return np.empty(0, np.int64)
        near = live & in_partitions(columns, self._partitions) & np.isin(columns.bucket, self._buckets)
        named = [row for row, name in manifest.names(np.flatnonzero(near)) if name in self._names]
        found = _identities(manifest, columns, np.array(named, np.int64))
        return np.array([row for row, identity in found if identity in self._identities], np.int64)


def every_entry(columns: EntryColumns) -> Mask:
    """Return all entries."""
    return np.ones(len(columns.kind), bool)


def in_partitions(columns: EntryColumns, partitions: Collection[bytes]) -> Mask:
    """Return which entries are in some partitions."""
    among = np.array([p in partitions for p in columns.partitions], bool)
    found: Mask = among[columns.partition] if len(among) else np.zeros(len(columns.kind), bool)
    return found

"""Which references need which files: every snapshot, tag and changelog of all branches, as numbers.

A table may have a million files and hundreds of references to them. Each manifest is read once; of each of its entries
a hash of the place, the size and a few numbers remain, about 40 bytes. What a reference needs is a mask over all files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, readable_refs
from paimon_spark.core.table import Table
from paimon_spark.engine.health.places import Hashes, Places, identities
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import Manifest, Rows
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import ManifestFileMeta
from paimon_spark.spec.paths import MAIN_BRANCH

_READINGS = 5
"""How often references are read again if one vanishes while its manifests are read."""


@dataclass(slots=True)
class _Entries:
    """The entries of one manifest: hashes of identities, and places and sizes of those that it adds."""

    added: Hashes
    places: Hashes
    sizes: Hashes
    deleted: Hashes
    rows: Hashes
    added_at: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    deleted_at: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(slots=True)
class _Needs:
    """What one reference needs: manifests to net, manifests whose files it needs all, and other files."""

    ref: ProtectingRef
    live: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    others: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reference whose metadata cannot be read, and why."""

    ref: ProtectingRef
    error: CorruptTableError


class ReferencedFiles:
    """The files that references need.

    Args:
        table: the table.
        refs: the references.
        only: name of the files that are looked for; all others are left out.

    Attributes:
        places: places of files as numbers.
        files: sorted hashes of the places of all files.
        sizes: size in bytes of each; -1 if no metadata says it.
        rows: number of rows of each; -1 if it is not a data file.
        unreadable: references that cannot be read; what they need is not included.
        others: sizes of the files that are neither data nor changelog files, by place.
    """

    def __init__(self, table: Table, refs: Iterable[ProtectingRef], only: str | None = None) -> None:
        self._store = ManifestStore(table)
        self._only = only
        self.places = Places(table)
        self.unreadable: list[Unreadable] = []
        self._entries: dict[str, _Entries] = {}
        needs = [n for ref in refs if (n := self._listed(ref)) is not None]
        self._needs = {n.ref.key: n for n in needs}
        self.refs = [n.ref for n in needs]
        self.others: dict[str, int | None] = {}
        for n in needs:
            for place, size in n.others.items():
                if self.others.get(place) is None:
                    self.others[place] = size
        self._number()

    def of(self, ref: ProtectingRef) -> Mask:
        """Return which files a reference needs."""
        return self.of_any([ref])

    def of_any(self, refs: Iterable[ProtectingRef]) -> Mask:
        """Return which files at least one of some references needs."""
        needed = np.zeros(len(self.files), bool)
        for ref in refs:
            needs = self._needs.get(ref.key)
            if needs is None:
                continue
            live = self._live(needs)
            for name in chain(needs.added, needs.written):
                live[self._entries[name].added_at] = True
            needed[self._file_of[live]] = True
            needed[self.positions(self.places.of_texts(needs.others))] = True
        return needed

    def live_rows(self, ref: ProtectingRef) -> int:
        """Return the number of rows in the live files of a snapshot or tag."""
        files = self._file_of[self._live(self._needs[ref.key])]
        return int(self.rows[files].sum())

    def positions(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """Return where some places are among the files; they must be there."""
        return np.searchsorted(self.files, hashes)

    def _live(self, needs: _Needs) -> Mask:
        """Return which entries the live manifests of a reference leave."""
        live = np.zeros(len(self._file_of), bool)
        for name in needs.live:
            live[self._entries[name].added_at] = True
        for name in needs.live:
            live[self._entries[name].deleted_at] = False
        return live

    def holds(self, hashes: Hashes) -> Mask:
        """Return which of some places are among the files."""
        at = np.searchsorted(self.files, hashes)
        at[at == len(self.files)] = 0
        found: Mask = self.files[at] == hashes if len(self.files) else np.zeros(len(hashes), bool)
        return found

    def total(self, mask: Mask) -> int:
        """Return the known bytes of some files."""
        return int(np.maximum(self.sizes[mask], 0).sum())

    # ---- reading

    def _listed(self, ref: ProtectingRef) -> _Needs | None:
        try:
            needs = _needs_of(self._store, self.places, ref)
            if self._only is not None:
                needs[0].others = {p: size for p, size in needs[0].others.items() if self._is_wanted(p)}
            for meta in needs[1]:
                self._read(meta, written_only=False)
            for meta in needs[2]:
                self._read(meta, written_only=True)
        except CorruptTableError as e:
            self.unreadable.append(Unreadable(ref, e))
            return None
        return needs[0]

    def _read(self, meta: ManifestFileMeta, *, written_only: bool) -> None:
        key = _written(meta.file_name) if written_only else meta.file_name
        if key not in self._entries:
            manifest = self._store.open(meta, remember=False)
            rows = _written_rows(manifest) if written_only else np.arange(len(manifest), dtype=np.int64)
            if self._only is not None:
                rows = np.array([row for row, name in manifest.names(rows) if name == self._only], np.int64)
            self._entries[key] = self._read_rows(manifest, rows)

    def _is_wanted(self, place: str) -> bool:
        return place.rpartition("/")[2] == self._only

    def _read_rows(self, manifest: Manifest, rows: Rows) -> _Entries:
        columns = manifest.entry_columns()
        places = self.places.of_rows(manifest, rows)
        ids = identities(manifest, rows, places)
        adds = columns.kind[rows] == FileKind.ADD
        added = rows[adds]
        sizes, counts = columns.size[added].astype(np.int64), columns.rows[added].astype(np.int64)
        return _Entries(ids[adds], places[adds], sizes, ids[~adds], counts)

    def _number(self) -> None:
        parts = list(self._entries.values())
        ids = np.unique(_joined([a for p in parts for a in (p.added, p.deleted)]))
        other_places = self.places.of_texts(self.others)
        self.files = np.unique(_joined([*(p.places for p in parts), other_places]))
        self.sizes = np.full(len(self.files), -1, np.int64)
        told = (-1 if size is None else size for size in self.others.values())
        self.sizes[self.positions(other_places)] = np.fromiter(told, np.int64, len(self.others))
        self._file_of = np.zeros(len(ids), np.int32)
        self.rows = np.full(len(self.files), -1, np.int64)
        for p in parts:
            p.added_at = np.searchsorted(ids, p.added).astype(np.int32)
            p.deleted_at = np.searchsorted(ids, p.deleted).astype(np.int32)
            at = self.positions(p.places).astype(np.int32)
            self._file_of[p.added_at] = at
            self.sizes[at], self.rows[at] = p.sizes, p.rows
            p.added = p.places = p.sizes = p.deleted = p.rows = np.empty(0, np.int64)


def references_of(table: Table, refs_of: Callable[[Table], Sequence[ProtectingRef]]) -> ReferencedFiles:
    """Return the files of all references; they are read again if one that cannot be read has vanished meanwhile.

    Args:
        table: the table.
        refs_of: reads the references.
    """
    for _ in range(_READINGS):
        referenced = ReferencedFiles(table, refs_of(table))
        if not referenced.unreadable:
            break
        left = remaining(table, (u.ref for u in referenced.unreadable))
        if len(left) == len(referenced.unreadable):
            break
    return referenced


def remaining(table: Table, refs: Iterable[ProtectingRef]) -> list[ProtectingRef]:
    """Return those of some references that still exist, as they were."""
    there = {r.key: r.snapshot for r in readable_refs(table)[0]}
    return [r for r in refs if there.get(r.key) == r.snapshot]


def _written(name: str) -> str:
    return f"{name} written"


def _joined(parts: Sequence[Hashes]) -> Hashes:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _needs_of(
    store: ManifestStore, places: Places, ref: ProtectingRef
) -> tuple[_Needs, list[ManifestFileMeta], list[ManifestFileMeta]]:
    """Return what a reference needs, the manifests to read, and those of which only written files count."""
    s, needs, kind = ref.snapshot, _Needs(ref), ref.kind
    metas: list[ManifestFileMeta] = []
    written: list[ManifestFileMeta] = []
    if kind is not RefKind.CHANGELOG:
        metas += _list(store, s.base_manifest_list, s.base_manifest_list_size, needs)
        metas += _list(store, s.delta_manifest_list, s.delta_manifest_list_size, needs)
        needs.live = [m.file_name for m in metas]
        if s.index_manifest is not None:
            needs.others[s.index_manifest] = None
            needs.others.update((places.index_text(e), e.file.file_size) for e in store.read_index(s.index_manifest))
        if s.statistics is not None:
            needs.others[s.statistics] = None
    if kind is not RefKind.TAG and s.changelog_manifest_list is not None:
        if kind is RefKind.SNAPSHOT and ref.branch == MAIN_BRANCH:
            needs.others[s.changelog_manifest_list] = s.changelog_manifest_list_size
        own = _tolerant_list(store, s.changelog_manifest_list, s.changelog_manifest_list_size, needs)
        needs.added = [m.file_name for m in own]
        metas += own
    elif kind is RefKind.CHANGELOG:
        written = _tolerant_list(store, s.delta_manifest_list, s.delta_manifest_list_size, needs)
        needs.written = [_written(m.file_name) for m in written]
    return needs, metas, written


def _list(store: ManifestStore, name: str, size: int | None, needs: _Needs) -> list[ManifestFileMeta]:
    metas = list(store.read_list(name, size))
    needs.others[name] = size
    needs.others.update((m.file_name, m.file_size) for m in metas)
    return metas


def _tolerant_list(store: ManifestStore, name: str, size: int | None, needs: _Needs) -> list[ManifestFileMeta]:
    """Return the manifests of a list that an expiry may delete before its reference."""
    try:
        return _list(store, name, size, needs)
    except CorruptTableError as e:
        if e.kind is not ErrorKind.FILE_MISSING:
            raise
        return []


def _written_rows(manifest: Manifest) -> Rows:
    """Return the entries of the files that a statement wrote, without those of compactions."""
    own = (e.kind is FileKind.ADD and e.file.file_source is not FileSource.COMPACT for e in manifest.entries())
    return np.flatnonzero(np.fromiter(own, bool, len(manifest)))

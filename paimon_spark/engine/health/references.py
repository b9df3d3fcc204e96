"""Which references need which files: every snapshot, tag and changelog of all branches, as numbers.

A table may have a million files and hundreds of references to them. Each manifest is read once; of each of its entries
a hash of the name, the size and a few numbers remain, about 40 bytes. What a reference needs is a mask over all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import Manifest
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import ManifestFileMeta
from paimon_spark.spec.paths import MAIN_BRANCH

Hashes = npt.NDArray[np.int64]
_LEVEL_STEP = np.int64(0x9E3779B97F4A7C15 - (1 << 64))
"""An upgrade deletes and adds one name at two levels; this tells the two apart."""


@dataclass(slots=True)
class _Entries:
    """The entries of one manifest: hashes of name and level, and names and sizes of those that it adds."""

    added: Hashes
    names: Hashes
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


def name_hash(name: str) -> int:
    """Return the hash of a file name, the same for all names in this process."""
    return hash(name)


class ReferencedFiles:
    """The files that references need.

    Attributes:
        names: sorted hashes of the names of all files.
        sizes: size in bytes of each; -1 if no metadata says it.
        rows: number of rows of each; -1 if it is not a data file.
        unreadable: references that cannot be read; what they need is not included.
        other_names: names of the files that are neither data nor changelog files.
    """

    def __init__(self, table: Table, refs: Iterable[ProtectingRef]) -> None:
        self._store = ManifestStore(table)
        self.unreadable: list[Unreadable] = []
        self._entries: dict[str, _Entries] = {}
        needs = [n for ref in refs if (n := self._listed(ref)) is not None]
        self._needs = {n.ref.key: n for n in needs}
        self.refs = [n.ref for n in needs]
        self.other_names: dict[str, int | None] = {}
        for n in needs:
            for name, size in n.others.items():
                if self.other_names.get(name) is None:
                    self.other_names[name] = size
        self._number()

    def of(self, ref: ProtectingRef) -> Mask:
        """Return which files a reference needs."""
        return self.of_any([ref])

    def of_any(self, refs: Iterable[ProtectingRef]) -> Mask:
        """Return which files at least one of some references needs."""
        needed = np.zeros(len(self.names), bool)
        for ref in refs:
            needs = self._needs.get(ref.key)
            if needs is None:
                continue
            live = self._live(needs)
            for name in chain(needs.added, needs.written):
                live[self._entries[name].added_at] = True
            needed[self._name_of[live]] = True
            needed[self._positions(needs.others)] = True
        return needed

    def live_rows(self, ref: ProtectingRef) -> int:
        """Return the number of rows in the live files of a snapshot or tag."""
        names = self._name_of[self._live(self._needs[ref.key])]
        return int(self.rows[names].sum())

    def positions(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """Return where some names are among the files; they must be there."""
        return np.searchsorted(self.names, hashes)

    def _live(self, needs: _Needs) -> Mask:
        """Return which entries the live manifests of a reference leave."""
        live = np.zeros(len(self._name_of), bool)
        for name in needs.live:
            live[self._entries[name].added_at] = True
        for name in needs.live:
            live[self._entries[name].deleted_at] = False
        return live

    def holds(self, hashes: Hashes) -> Mask:
        """Return which of some names are among the files."""
        at = np.searchsorted(self.names, hashes)
        at[at == len(self.names)] = 0
        found: Mask = self.names[at] == hashes if len(self.names) else np.zeros(len(hashes), bool)
        return found

    def total(self, mask: Mask) -> int:
        """Return the known bytes of some files."""
        return int(np.maximum(self.sizes[mask], 0).sum())

    def _positions(self, names: Iterable[str]) -> npt.NDArray[np.intp]:
        return np.searchsorted(self.names, np.array([name_hash(n) for n in names], np.int64))

    # ---- reading

    def _listed(self, ref: ProtectingRef) -> _Needs | None:
        try:
            needs = _needs_of(self._store, ref)
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
            self._entries[key] = _written_entries(manifest) if written_only else _entries(manifest)

    def _number(self) -> None:
        parts = list(self._entries.values())
        ids = np.unique(_joined([a for p in parts for a in (p.added, p.deleted)]))
        others = {name_hash(n): -1 if s is None else s for n, s in self.other_names.items()}
        other_hashes = np.fromiter(others, np.int64, len(others))
        self.names = np.unique(_joined([*(p.names for p in parts), other_hashes]))
        self.sizes = np.full(len(self.names), -1, np.int64)
        self.sizes[np.searchsorted(self.names, other_hashes)] = np.fromiter(others.values(), np.int64, len(others))
        self._name_of = np.zeros(len(ids), np.int32)
        self.rows = np.full(len(self.names), -1, np.int64)
        for p in parts:
            p.added_at = np.searchsorted(ids, p.added).astype(np.int32)
            p.deleted_at = np.searchsorted(ids, p.deleted).astype(np.int32)
            at = np.searchsorted(self.names, p.names).astype(np.int32)
            self._name_of[p.added_at] = at
            self.sizes[at], self.rows[at] = p.sizes, p.rows
            p.added = p.names = p.sizes = p.deleted = p.rows = np.empty(0, np.int64)


def _written(name: str) -> str:
    return f"{name} written"


def _joined(parts: Sequence[Hashes]) -> Hashes:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _needs_of(
    store: ManifestStore, ref: ProtectingRef
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
            needs.others.update((e.file.file_name, e.file.file_size) for e in store.read_index(s.index_manifest))
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


def _entries(manifest: Manifest) -> _Entries:
    columns = manifest.entry_columns()
    rows = np.arange(len(columns.kind), dtype=np.int64)
    names = np.fromiter(map(name_hash, _names(manifest, rows)), np.int64, len(rows))
    with np.errstate(over="ignore"):
        ids = names + columns.level.astype(np.int64) * _LEVEL_STEP
    added = columns.kind == FileKind.ADD
    sizes, counts = columns.size[added].astype(np.int64), columns.rows[added].astype(np.int64)
    return _Entries(ids[added], names[added], sizes, ids[~added], counts)


def _written_entries(manifest: Manifest) -> _Entries:
    """Return the entries of the files that a statement wrote, without those of compactions."""
    own = [e for e in manifest.entries() if e.kind is FileKind.ADD and e.file.file_source is not FileSource.COMPACT]
    names = np.array([name_hash(e.file.file_name) for e in own], np.int64)
    sizes = np.array([e.file.file_size for e in own], np.int64)
    with np.errstate(over="ignore"):
        ids = names + np.array([e.file.level for e in own], np.int64) * _LEVEL_STEP
    rows = np.array([e.file.row_count for e in own], np.int64)
    return _Entries(ids, names, sizes, np.empty(0, np.int64), rows)


def _names(manifest: Manifest, rows: npt.NDArray[np.int64]) -> Iterator[str]:
    return (name for _, name in manifest.names(rows))

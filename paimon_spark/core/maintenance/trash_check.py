"""Whether the files that references need exist, before the references come back from the trash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from paimon_spark.core.maintenance.reachability import Reachability
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import ManifestFileMeta


class _WithTrash:
    """A store that reads files from the trash if they are not in the table."""

    def __init__(self, inner: FileIO, kept: Mapping[str, str]) -> None:
        self._inner = inner
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        try:
            return self._inner.read(path)
        except FileNotFoundError:
            return self._inner.read(self._kept.get(path, path))


def missing_files(table: Table, refs: Sequence[ProtectingRef], kept: Mapping[str, str]) -> list[str]:
    """Return the files that references need and that are neither in the table nor in the trash, sorted.

    If metadata files are missing, those are returned: the files that they name are unknown.

    Args:
        table: the table.
        refs: the references.
        kept: the paths in the trash of the files that a run keeps, by their paths in the table.
    """
    overlay = cast("FileIO", _WithTrash(table.file_io, kept))
    check = _Check(replace(table, file_io=overlay), kept)
    lists = {n for ref in refs for n in lists_of(ref)}
    missing = check.absent(table.paths.manifest(n) for n in lists)
    if missing:
        return missing
    metas = {m.file_name: m for n in sorted(lists) for m in check.store.read_list(n)}
    indexes = {s.index_manifest for s in (r.snapshot for r in refs if _has_state(r)) if s.index_manifest is not None}
    statistics = {r.snapshot.statistics for r in refs if _has_state(r) and r.snapshot.statistics is not None}
    missing = check.absent(
        [*(table.paths.manifest(n) for n in (*metas, *indexes)), *map(table.paths.statistics, statistics)]
    )
    if missing:
        return missing
    files = {table.paths.index_file(e.partition, e.bucket, e.file) for n in indexes for e in check.store.read_index(n)}
    return sorted({*check.absent(files), *check.absent_data(refs, metas.values())})


def _has_state(ref: ProtectingRef) -> bool:
    return ref.kind is not RefKind.CHANGELOG


def lists_of(ref: ProtectingRef) -> Iterator[str]:
    """Yield the manifest lists that a reference needs."""
    snapshot = ref.snapshot
    if _has_state(ref):
        yield from (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    if snapshot.changelog_manifest_list is not None:
        if ref.kind is not RefKind.TAG:
            yield snapshot.changelog_manifest_list
    elif not _has_state(ref):
        yield snapshot.delta_manifest_list


class _Check:
    """Existence of files by listings, each directory once."""

    def __init__(self, table: Table, kept: Mapping[str, str]) -> None:
        self.table = table
        self.store = ManifestStore(table)
        self._kept = kept
        self._there: dict[str, frozenset[str]] = {}

    def absent(self, paths: Iterable[str]) -> list[str]:
        """Return the paths of files that do not exist, sorted."""
        return self._looked_up(self._unlisted(paths))

    def absent_data(self, refs: Sequence[ProtectingRef], metas: Iterable[ManifestFileMeta]) -> list[str]:
        """Return the data and changelog files that references need and that do not exist."""
        missing: dict[str, str] = {}
        for meta in metas:
            added = [e for e in self.store.open(meta, remember=False).entries() if e.kind is FileKind.ADD]
            paths = [p for e in added for p in self.table.paths.file_paths(e.partition, e.bucket, e.file)]
            missing |= {p.rpartition("/")[2]: p for p in self._unlisted(paths)}
        needed = Reachability(self.store, refs).data_refs(missing)
        return self._looked_up(sorted(missing[name] for name in needed))

    def _unlisted(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that are neither in the trash nor in the listings of their directories, sorted."""
        wanted = [p for p in paths if p not in self._kept]
        new = sorted({p.rpartition("/")[0] for p in wanted} - self._there.keys())
        listed = in_parallel(lambda d: frozenset(s.name for s in self.table.file_io.list(d)), new)
        self._there |= dict(zip(new, listed, strict=True))
        return sorted(p for p in wanted if p.rpartition("/")[2] not in self._there[p.rpartition("/")[0]])

    def _looked_up(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that do not exist: some listings lag."""
        there = in_parallel(self.table.file_io.exists, paths)
        return [p for p, exists in zip(paths, there, strict=True) if not exists]

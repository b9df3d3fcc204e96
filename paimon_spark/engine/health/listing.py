"""What lies in a table's directories, held against what its references need: missing files and orphans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from paimon_spark.core.maintenance.deletion import DELETE, Action, SafeDeleter
from paimon_spark.core.maintenance.orphans import Listing, directories, spread
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.table import Table
from paimon_spark.engine.health.places import Hashes, Places
from paimon_spark.engine.health.references import ReferencedFiles
from paimon_spark.engine.listing_tasks import DIRECTORIES_A_TASK, list_directories
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.format.arrays import Mask
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import ManifestEntry, ManifestFileMeta
from paimon_spark.spec.paths import MAIN_BRANCH

DAY_MILLIS = 24 * 60 * 60 * 1000
_ANY_TIME = (1 << 62) - 1
_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """The files of a table: sorted hashes of their places, and their sizes."""

    files: Hashes
    sizes: Hashes

    def holds(self, hashes: Hashes) -> Mask:
        """Return which of some places exist."""
        return self.sizes_of(hashes) >= 0

    def sizes_of(self, hashes: Hashes) -> Hashes:
        """Return the sizes of files by place; -1 for one that does not exist."""
        if not len(self.files):
            return np.full(len(hashes), -1, np.int64)
        at = np.minimum(np.searchsorted(self.files, hashes), len(self.files) - 1)
        return np.where(self.files[at] == hashes, self.sizes[at], -1)


@dataclass(frozen=True, slots=True)
class Orphans:
    """The number and size of files that nothing needs, old enough to be deleted."""

    files: int = 0
    bytes: int = 0


def listings_of(table: Table, runner: TaskRunner, older_than: int = _ANY_TIME) -> Iterator[Listing]:
    """Yield the files of a table and its branches by task.

    Raises:
        CorruptTableError: a branch has no schema, so its files are unknown.
    """
    main = replace(table, branch=MAIN_BRANCH)
    found, seen = spread(main.file_io, directories(main), DIRECTORIES_A_TASK, older_than)
    yield seen
    work = [(0, directory) for directory in found]
    lists = list_directories(main.file_io, work, runner, older_than=older_than, parallelism=None, of=table.name)
    yield from (listing for _, listing in lists)


def list_files(table: Table, runner: TaskRunner) -> ListedFiles:
    """Return the files of a table and its branches, of any age."""
    places, found, sizes = Places(table), [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for listing in listings_of(table, runner):
        count = len(listing.files)
        found.append(places.of_paths(c.path for c in listing.files))
        sizes.append(np.fromiter((c.size for c in listing.files), np.int64, count))
    joined = np.concatenate(found)
    order = np.argsort(joined)
    return ListedFiles(joined[order], np.concatenate(sizes)[order])


def find_orphans(
    table: Table, referenced: ReferencedFiles, listed: ListedFiles, runner: TaskRunner, older_than: int
) -> Orphans:
    """Return the files that nothing needs and that were modified before `older_than`.

    Raises:
        CorruptTableError: a reference cannot be read, so what it needs is unknown.
    """
    if referenced.holds(listed.files).all():
        return Orphans()
    suspects: list[Action] = []
    strays: list[Action] = []
    for listing in listings_of(table, runner, older_than):
        unknown = ~referenced.holds(referenced.places.of_paths(c.path for c in listing.files))
        for at in np.flatnonzero(unknown).tolist():
            found = listing.files[at]
            (suspects if found.needed else strays).append(Action(DELETE, found.path, found.size, ""))
    going = [*SafeDeleter(replace(table, branch=MAIN_BRANCH)).unreachable(suspects), *strays]
    return Orphans(len(going), sum(a.bytes for a in going))


def entries_at(table: Table, metas: Iterable[ManifestFileMeta], hashes: Hashes) -> Iterator[ManifestEntry]:
    """Yield the ADD entries of some manifests whose places are among some sorted hashes."""
    store, places = ManifestStore(table), Places(table)
    for meta in metas:
        if meta.num_added_files == 0 or not len(hashes):
            continue
        manifest = store.open(meta, remember=False)
        rows = np.flatnonzero(manifest.entry_columns().kind == FileKind.ADD)
        own = places.of_rows(manifest, rows)
        at = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
        yield from manifest.entries(rows[hashes[at] == own])


def truly_missing(table: Table, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    """Yield the entries whose data files do not exist: listings of some stores lag, and files may be elsewhere."""
    portion: list[ManifestEntry] = []

    def gone() -> Iterator[ManifestEntry]:
        paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in portion]
        there = in_parallel(table.file_io.exists, paths)
        return (e for e, exists in zip(list(portion), there, strict=True) if not exists)

    for entry in entries:
        portion.append(entry)
        if len(portion) == _AT_ONCE:
            yield from gone()
            portion.clear()
    yield from gone()

"""Verification: whether every file that any snapshot, tag, branch or changelog needs is there and sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from paimon_spark.core.maintenance.file_verification import Defect, Fault, FileCheck, VectorCheck
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.lost_references import lost_references, snapshot_gaps
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore, readable_refs, ref_path
from paimon_spark.core.metadata.row_ranges import is_blob_file
from paimon_spark.core.metadata_io import in_parallel, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.health.listing import ListedFiles, list_files
from paimon_spark.engine.health.places import Hashes
from paimon_spark.engine.health.references import ReferencedFiles, references_of, remaining
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import verified_faults, verify_payload
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, PaimonError
from paimon_spark.format.manifest.lazy_manifest import Manifest
from paimon_spark.format.parquet_footer import FOOTERS
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, IndexManifestEntry, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.paths import MAIN_BRANCH

_T = TypeVar("_T")
_FILES_A_TASK = 64
_TASKS_AT_ONCE = 256
_LABELS = 3
_FAULTS_AT_ONCE = 4096


class Depth(StrEnum):
    """How deep a verification looks."""

    METADATA = "metadata"
    FOOTERS = "footers"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class VerifiedDefect:
    """A defect, and the references that need the file: some of them as text, and how many there are."""

    defect: str
    path: str
    found: str
    needed_by: str = ""
    references: int = 0


@translate_io_errors()
def verify(table: Table, runner: TaskRunner, depth: Depth) -> Iterator[VerifiedDefect]:
    """Yield the defects of a table and all its branches; none if it is sound.

    The files are read again, even if this process knows their content: they may have been damaged since.

    Args:
        table: the table.
        runner: runs the tasks.
        depth: what is read besides metadata and directories.
    """
    clear_cache()
    FOOTERS.clear()
    errors: list[CorruptTableError] = []

    def read(table: Table) -> list[ProtectingRef]:
        refs, errors[:] = readable_refs(table)
        return refs

    referenced = references_of(table, read)
    for error in errors:
        yield VerifiedDefect(Defect.UNREADABLE, _path_in(error.message), error.message)
    for lost in lost_references(table):
        missing = lost.error.kind is ErrorKind.FILE_MISSING
        yield VerifiedDefect(Defect.MISSING if missing else Defect.UNREADABLE, lost.path, lost.error.message)
    yield from _definitions(table, [*referenced.refs, *(u.ref for u in referenced.unreadable)])
    for broken in referenced.unreadable:
        missing = broken.error.kind is ErrorKind.FILE_MISSING
        yield VerifiedDefect(
            Defect.MISSING if missing else Defect.UNREADABLE,
            _path_in(broken.error.message),
            broken.error.message,
            broken.ref.label,
            1,
        )
    verification = Verification(table, referenced, referenced.refs, list_files(table, runner))
    yield from verification.row_counts()
    yield from verification.with_references(
        chain(verification.metadata_files(), verification.data_files(runner, depth))
    )


def _path_in(message: str) -> str:
    return next((word.rstrip(",.;:") for word in message.split() if "/" in word), "")


def _definitions(table: Table, refs: Sequence[ProtectingRef]) -> Iterator[VerifiedDefect]:
    """Yield defects of schemas, consumers and the sequence of snapshots."""
    for place, own in branches_of(table, refs):
        for path, e in lost_schemas(place, own):
            missing = isinstance(e, NotFoundError)
            yield VerifiedDefect(Defect.MISSING if missing else Defect.UNREADABLE, path, e.message)
        try:
            RefStore.of(place).consumers()
        except CorruptTableError as e:
            yield VerifiedDefect(Defect.UNREADABLE, _path_in(e.message), e.message)
        for gap in snapshot_gaps(place, own):
            yield VerifiedDefect(Defect.SNAPSHOT_GAP, gap.path, gap.text)


def branches_of(table: Table, refs: Sequence[ProtectingRef]) -> Iterator[tuple[Table, list[ProtectingRef]]]:
    """Yield the branch of a table, and each branch with references, with its references."""
    for branch in sorted({r.branch for r in refs} | {table.branch}):
        yield replace(table, branch=branch), [r for r in refs if r.branch == branch]


def lost_schemas(table: Table, refs: Iterable[ProtectingRef]) -> Iterator[tuple[str, PaimonError]]:
    """Yield the paths of the schemas of some references of a branch that cannot be read, and why."""
    for schema_id in sorted({r.snapshot.schema_id for r in refs}):
        try:
            table.schema_store.get(schema_id)
        except (NotFoundError, CorruptTableError) as e:
            yield table.paths.schema(schema_id), e


class Verification:
    """Compares the files that readable references need with a listing and with their content.

    Args:
        table: the table.
        referenced: the files of the references.
        refs: the references.
        listed: the files that exist.
    """

    def __init__(
        self, table: Table, referenced: ReferencedFiles, refs: Sequence[ProtectingRef], listed: ListedFiles
    ) -> None:
        self._table, self._referenced, self._refs = table, referenced, refs
        self._store = ManifestStore(table)
        self._places = referenced.places
        self._listed = listed
        self._needed = referenced.of_any(refs)

    def row_counts(self) -> Iterator[VerifiedDefect]:
        """Yield the snapshots and tags whose total row count is not that of their files."""
        for ref in self._refs:
            if ref.kind is RefKind.CHANGELOG:
                continue
            rows, told = self._referenced.live_rows(ref), ref.snapshot.total_record_count
            if rows != told:
                yield VerifiedDefect(
                    Defect.WRONG_ROW_COUNT,
                    ref_path(self._table, ref),
                    f"it says {told} rows, its files have {rows}",
                    ref.label,
                    1,
                )

    def with_references(self, faults: Iterable[Fault]) -> Iterator[VerifiedDefect]:
        """Yield the defects with the references that need the files, without files that nothing needs any more."""
        found = iter(faults)
        while batch := list(islice(found, _FAULTS_AT_ONCE)):
            some = self.confirmed(batch)
            known = self._positions(some)
            labels: list[list[str]] = [[] for _ in some]
            counts = np.zeros(len(some), np.int64)
            for ref in self._refs:
                needing = self._referenced.of(ref)[known] & (known >= 0) if len(self._needed) else known >= 0
                counts += needing
                for at in np.flatnonzero(needing & (counts <= _LABELS)).tolist():
                    labels[at].append(ref.label)
            for fault, own, count in zip(some, labels, counts.tolist(), strict=True):
                more = f" and {count - len(own)} more" if count > len(own) else ""
                yield VerifiedDefect(fault.defect, fault.path, fault.found, ", ".join(own) + more, count)

    def confirmed(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return the faults of files that the references of this moment need: the table may have expired others."""
        if not faults or len(remaining(self._table, self._refs)) == len(self._refs):
            return list(faults)
        current = references_of(self._table, lambda table: readable_refs(table)[0])
        needed = current.files[current.of_any(current.refs)]
        left = np.isin(self._places.of_paths(f.path for f in faults), needed) | (self._positions(faults) < 0)
        return [f for f, is_left in zip(faults, left.tolist(), strict=True) if is_left]

    def _positions(self, faults: Sequence[Fault]) -> npt.NDArray[np.int64]:
        """Return where the files of faults are among those that are needed; -1 for those that are not."""
        return self._found(self._places.of_paths(f.path for f in faults))

    def _found(self, places: Hashes) -> npt.NDArray[np.int64]:
        held = self._referenced.holds(places)
        return np.where(held, self._referenced.positions(places), -1)

    def metadata_files(self) -> Iterator[Fault]:
        """Yield the manifests, index files and statistics that are missing or have another size."""
        paths = dict(self._metadata_paths())
        sizes = [self._referenced.others.get(place) for place in paths]
        listed = self._listed.sizes_of(self._places.of_texts(paths)).tolist()
        doubtful = [
            (path, size)
            for path, size, found in zip(paths.values(), sizes, listed, strict=True)
            if found < 0 or (size is not None and found != size)
        ]
        yield from self.looked_up(doubtful)

    def _metadata_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the places and paths of the files that are neither data nor changelog files."""
        paths = self._table.paths
        for ref in self._refs:
            s = ref.snapshot
            if ref.kind is not RefKind.CHANGELOG:
                lists = (s.base_manifest_list, s.delta_manifest_list, s.index_manifest)
                yield from ((name, paths.manifest(name)) for name in lists if name is not None)
            if ref.kind is RefKind.SNAPSHOT and ref.branch == MAIN_BRANCH and s.changelog_manifest_list is not None:
                yield s.changelog_manifest_list, paths.manifest(s.changelog_manifest_list)
            if s.index_manifest is not None and ref.kind is not RefKind.CHANGELOG:
                for e in self._index(ref):
                    yield self._places.index_text(e), paths.index_file(e.partition, e.bucket, e.file)
            if s.statistics is not None and ref.kind is not RefKind.CHANGELOG:
                yield s.statistics, paths.statistics(s.statistics)
            for meta in self._metas(ref):
                yield meta.file_name, paths.manifest(meta.file_name)

    def looked_up(self, doubtful: Sequence[tuple[str, int | None]]) -> Iterator[Fault]:
        """Yield which files, given with sizes, are really missing or have another size: listings of some stores lag."""

        def size_of(item: tuple[str, int | None]) -> int | None:
            try:
                return self._table.file_io.status(item[0]).size
            except FileNotFoundError:
                return None

        for (path, told), found in zip(doubtful, in_parallel(size_of, doubtful), strict=True):
            if found is None:
                yield Fault(path, Defect.MISSING, "the file does not exist")
            elif told is not None and found != told:
                yield Fault(path, Defect.WRONG_SIZE, f"it has {found} bytes, the metadata says {told}")

    def data_files(self, runner: TaskRunner, depth: Depth) -> Iterator[Fault]:
        """Yield the defects of data files, changelog files, their indexes and deletion vectors."""
        payloads = self._payloads(depth)
        while some := list(islice(payloads, _TASKS_AT_ONCE)):
            doubtful = [item for _, found in some for item in found]
            yield from self.looked_up(doubtful)
            work = [payload for payload, _ in some if payload]
            description = f"verify {self._table.name}: {len(work)} tasks"
            for result in runner.run("verify", work, description=description) if work else ():
                yield from (f for f in verified_faults(result) if f.defect != Defect.MISSING)
        yield from self._dangling()

    def _payloads(self, depth: Depth) -> Iterator[tuple[str, list[tuple[str, int | None]]]]:
        """Yield the payload of each task, empty if none is needed, and the files that the listing contradicts."""
        entries = self._entries()
        while some := list(islice(entries, _FILES_A_TASK)):
            doubtful = list(self._doubtful(some))
            absent = {path for path, _ in doubtful}
            checks = [c for c in map(self._check, some) if c is not None and c.path not in absent]
            yield ("" if depth is Depth.METADATA else verify_payload(self._table, depth, checks, ())), doubtful
        vectors = self._vectors()
        while found := list(islice(vectors, _FILES_A_TASK)):
            yield verify_payload(self._table, depth, (), found), []

    def _doubtful(self, entries: Iterable[ManifestEntry]) -> Iterator[tuple[str, int | None]]:
        """Yield the files of entries, and their indexes, that the listing lacks or shows with another size."""
        expected: list[tuple[str, int | None]] = []
        for e in entries:
            path, *extra = self._table.paths.file_paths(e.partition, e.bucket, e.file)
            expected.append((path, e.file.file_size))
            expected += ((p, None) for p in extra)
        hashes = self._places.of_paths(path for path, _ in expected)
        for (path, told), found in zip(expected, self._listed.sizes_of(hashes).tolist(), strict=True):
            if found < 0 or (told is not None and found != told):
                yield path, told

    def _check(self, e: ManifestEntry) -> FileCheck | None:
        if is_blob_file(e.file):
            return None
        path = self._table.paths.data_file(e.partition, e.bucket, e.file)
        return FileCheck(path, e.file.file_size, e.file.row_count, e.file.schema_id)

    def _metas(self, ref: ProtectingRef) -> list[ManifestFileMeta]:
        """Return the manifests of a reference."""
        s, store = ref.snapshot, self._store
        found = [] if ref.kind is RefKind.CHANGELOG else self._read(ref, lambda: store.data_manifests(s))
        name = None if ref.kind is RefKind.TAG else s.changelog_manifest_list
        if ref.kind is RefKind.CHANGELOG and name is None:
            name = s.delta_manifest_list
        try:
            return [*found, *(store.read_list(name) if name is not None else ())]
        except CorruptTableError as e:
            if e.kind is not ErrorKind.FILE_MISSING:
                raise
            return list(found)

    def _index(self, ref: ProtectingRef) -> Sequence[IndexManifestEntry]:
        """Return the index files of a snapshot or tag."""
        if ref.kind is RefKind.CHANGELOG:
            return ()
        return self._read(ref, lambda: self._store.read_index(ref.snapshot.index_manifest))

    def _read(self, ref: ProtectingRef, read: Callable[[], Sequence[_T]]) -> Sequence[_T]:
        """Return what is read; nothing if it has vanished with its reference."""
        try:
            return read()
        except CorruptTableError as e:
            if e.kind is not ErrorKind.FILE_MISSING or remaining(self._table, [ref]):
                raise
            return ()

    def _entries(self) -> Iterator[ManifestEntry]:
        """Yield an entry of each needed file, once.

        A changelog may list files of compactions, which nothing needs.
        """
        seen, left = set[str](), self._needed.copy()
        for ref in self._refs:
            for meta in self._metas(ref):
                if meta.file_name in seen:
                    continue
                opened = self._read(ref, partial(self._opened, meta))
                seen.update(meta.file_name for _ in opened)
                for manifest in opened:
                    rows = np.flatnonzero(manifest.entry_columns().kind == FileKind.ADD)
                    places = self._places.of_rows(manifest, rows)
                    known = self._referenced.holds(places)
                    rows, at = rows[known], self._referenced.positions(places[known])
                    _, firsts = np.unique(at, return_index=True)
                    chosen = np.sort(firsts[left[at[firsts]]])
                    left[at[chosen]] = False
                    yield from manifest.entries(rows[chosen])

    def _opened(self, meta: ManifestFileMeta) -> list[Manifest]:
        return [self._store.open(meta, remember=False)]

    def _vectors(self) -> Iterator[VectorCheck]:
        """Yield each deletion vector once."""
        seen: set[str] = set()
        for ref in self._refs:
            for e in self._index(ref):
                place = self._places.index_text(e)
                if e.file.index_type != DELETION_VECTORS_INDEX or place in seen:
                    continue
                seen.add(place)
                if not self._listed.holds(self._places.of_texts([place]))[0]:
                    continue
                path = self._table.paths.index_file(e.partition, e.bucket, e.file)
                ranges = e.file.deletion_ranges or ()
                known = self._found(self._places.of_bucket(e.partition, e.bucket, [r.data_file for r in ranges]))
                for r, at in zip(ranges, known.tolist(), strict=True):
                    rows = None if at < 0 else int(self._referenced.rows[at])
                    yield VectorCheck(path, r.data_file, r.offset, r.length, r.cardinality, rows)

    def _dangling(self) -> Iterator[Fault]:
        """Yield the deletion vectors of files that their snapshot does not have."""
        for ref in self._refs:
            marking = [
                (e, [r.data_file for r in e.file.deletion_ranges]) for e in self._index(ref) if e.file.deletion_ranges
            ]
            if not marking:
                continue
            vectors = [(e, name) for e, names in marking for name in names]
            places = [self._places.of_bucket(e.partition, e.bucket, names) for e, names in marking]
            known = self._found(np.concatenate(places))
            there = (known >= 0) & self._referenced.of(ref)[known]
            for e, data_file in (v for v, is_there in zip(vectors, there.tolist(), strict=True) if not is_there):
                yield Fault(
                    self._table.paths.index_file(e.partition, e.bucket, e.file),
                    Defect.DANGLING_VECTOR,
                    f"{ref.label} has no file {data_file}, which the vector belongs to",
                )


def failed_verification(error: PaimonError) -> VerifiedDefect:
    """Return the defect of a table that cannot be verified."""
    return VerifiedDefect(Defect.UNREADABLE, _path_in(error.message), str(error))

"""Verification: whether every file that any snapshot, tag, branch or changelog needs is there and sound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice, pairwise

import numpy as np

from paimon_spark.core.maintenance.soundness import Defect, Fault, FileCheck, VectorCheck
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore, readable_refs, ref_path
from paimon_spark.core.metadata.row_ranges import is_blob_file
from paimon_spark.core.metadata_io import in_parallel, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.health.listing import ListedFiles, list_files
from paimon_spark.engine.health.references import ReferencedFiles, name_hash
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import verified_faults, verify_payload
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, PaimonError
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.paths import MAIN_BRANCH

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

    Args:
        table: the table.
        runner: runs the tasks.
        depth: what is read besides metadata and directories.
    """
    refs, errors = readable_refs(table)
    for error in errors:
        yield VerifiedDefect(Defect.UNREADABLE, _path_in(error.message), error.message)
    yield from _definitions(table, refs)
    referenced = ReferencedFiles(table, refs)
    for broken in referenced.unreadable:
        missing = broken.error.kind is ErrorKind.FILE_MISSING
        yield VerifiedDefect(
            Defect.MISSING if missing else Defect.UNREADABLE,
            _path_in(broken.error.message),
            broken.error.message,
            broken.ref.label,
            1,
        )
    readable = {r.key for r in referenced.refs}
    sound = [r for r in refs if r.key in readable]
    verification = Verification(table, referenced, sound, list_files(table, runner))
    yield from verification.row_counts()
    yield from verification.with_references(
        chain(verification.metadata_files(), verification.data_files(runner, depth))
    )


def _path_in(message: str) -> str:
    return next((word.rstrip(",.;:") for word in message.split() if "/" in word), "")


def _definitions(table: Table, refs: Sequence[ProtectingRef]) -> Iterator[VerifiedDefect]:
    """Yield defects of schemas, consumers and the sequence of snapshots."""
    for branch in sorted({r.branch for r in refs} | {table.branch}):
        place = replace(table, branch=branch)
        own = [r for r in refs if r.branch == branch]
        for schema_id in sorted({r.snapshot.schema_id for r in own}):
            try:
                place.schema_store.get(schema_id)
            except (NotFoundError, CorruptTableError) as e:
                missing = isinstance(e, NotFoundError)
                yield VerifiedDefect(
                    Defect.MISSING if missing else Defect.UNREADABLE, place.paths.schema(schema_id), e.message
                )
        try:
            RefStore.of(place).consumers()
        except CorruptTableError as e:
            yield VerifiedDefect(Defect.UNREADABLE, _path_in(e.message), e.message)
        ids = sorted(r.snapshot.id for r in own if r.kind is RefKind.SNAPSHOT)
        for before, after in pairwise(ids):
            if after != before + 1:
                yield VerifiedDefect(
                    Defect.SNAPSHOT_GAP,
                    place.paths.snapshot(before + 1),
                    f"snapshots {before} and {after} exist, but none between them",
                )


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
        """Yield the defects with the references that need the files."""
        found = iter(faults)
        while some := list(islice(found, _FAULTS_AT_ONCE)):
            places = [self._position(f.path.rpartition("/")[2]) for f in some]
            known = np.array([-1 if at is None else at for at in places], np.int64)
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

    def metadata_files(self) -> Iterator[Fault]:
        """Yield the manifests, index files and statistics that are missing or have another size."""
        paths = dict(self._metadata_paths())
        names = list(paths)
        sizes = [self._referenced.other_names.get(name) for name in names]
        listed = self._listed.sizes_of(np.array([name_hash(n) for n in names], np.int64)).tolist()
        doubtful = [
            (paths[name], size)
            for name, size, found in zip(names, sizes, listed, strict=True)
            if found < 0 or (size is not None and found != size)
        ]
        yield from self._looked_up(doubtful)

    def _metadata_paths(self) -> Iterator[tuple[str, str]]:
        paths, store = self._table.paths, self._store
        for ref in self._refs:
            s = ref.snapshot
            if ref.kind is not RefKind.CHANGELOG:
                lists = (s.base_manifest_list, s.delta_manifest_list, s.index_manifest)
                yield from ((name, paths.manifest(name)) for name in lists if name is not None)
            if ref.kind is RefKind.SNAPSHOT and ref.branch == MAIN_BRANCH and s.changelog_manifest_list is not None:
                yield s.changelog_manifest_list, paths.manifest(s.changelog_manifest_list)
            if s.index_manifest is not None and ref.kind is not RefKind.CHANGELOG:
                for e in store.read_index(s.index_manifest):
                    yield e.file.file_name, paths.index_file(e.partition, e.bucket, e.file)
            if s.statistics is not None and ref.kind is not RefKind.CHANGELOG:
                yield s.statistics, paths.statistics(s.statistics)
            for meta in self._metas(ref):
                yield meta.file_name, paths.manifest(meta.file_name)

    def _looked_up(self, doubtful: Sequence[tuple[str, int | None]]) -> Iterator[Fault]:
        """Yield which files are really missing or of another size: listings of some stores lag."""

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
            yield from self._looked_up(doubtful)
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
        hashes = np.array([name_hash(path.rpartition("/")[2]) for path, _ in expected], np.int64)
        for (path, told), found in zip(expected, self._listed.sizes_of(hashes).tolist(), strict=True):
            if found < 0 or (told is not None and found != told):
                yield path, told

    def _check(self, e: ManifestEntry) -> FileCheck | None:
        if is_blob_file(e.file):
            return None
        path = self._table.paths.data_file(e.partition, e.bucket, e.file)
        return FileCheck(path, e.file.file_size, e.file.row_count, e.file.schema_id)

    def _metas(self, ref: ProtectingRef) -> Iterator[ManifestFileMeta]:
        s, store = ref.snapshot, self._store
        if ref.kind is not RefKind.CHANGELOG:
            yield from store.data_manifests(s)
        lists = [] if ref.kind is RefKind.TAG else [s.changelog_manifest_list]
        if ref.kind is RefKind.CHANGELOG and s.changelog_manifest_list is None:
            lists = [s.delta_manifest_list]
        for name in lists:
            try:
                yield from store.read_list(name) if name is not None else ()
            except CorruptTableError as e:
                if e.kind is not ErrorKind.FILE_MISSING:
                    raise

    def _entries(self) -> Iterator[ManifestEntry]:
        """Yield an entry of each needed file, once."""
        seen, left = set[str](), self._needed.copy()
        for meta in (m for ref in self._refs for m in self._metas(ref)):
            if meta.file_name in seen:
                continue
            seen.add(meta.file_name)
            manifest = self._store.open(meta, remember=False)
            rows = np.flatnonzero(manifest.entry_columns().kind == FileKind.ADD)
            hashes = np.fromiter((name_hash(n) for _, n in manifest.names(rows)), np.int64, len(rows))
            at = self._referenced.positions(hashes)
            _, firsts = np.unique(at, return_index=True)
            chosen = np.sort(firsts[left[at[firsts]]])
            left[at[chosen]] = False
            yield from manifest.entries(rows[chosen])

    def _vectors(self) -> Iterator[VectorCheck]:
        """Yield each deletion vector once."""
        seen: set[str] = set()
        for ref in self._refs:
            name = ref.snapshot.index_manifest
            if name is None or ref.kind is RefKind.CHANGELOG:
                continue
            for e in self._store.read_index(name):
                if e.file.index_type != DELETION_VECTORS_INDEX or e.file.file_name in seen:
                    continue
                seen.add(e.file.file_name)
                if not self._listed.holds(np.array([name_hash(e.file.file_name)], np.int64))[0]:
                    continue
                path = self._table.paths.index_file(e.partition, e.bucket, e.file)
                for r in e.file.deletion_ranges or ():
                    yield VectorCheck(path, r.data_file, r.offset, r.length, r.cardinality, self._rows(r.data_file))

    def _rows(self, name: str) -> int | None:
        at = self._position(name)
        return None if at is None else int(self._referenced.rows[at])

    def _position(self, name: str) -> int | None:
        """Return where a file is among those that are needed; None if it is not."""
        at = int(self._referenced.positions(np.array([name_hash(name)], np.int64))[0])
        return at if at < len(self._needed) and self._referenced.names[at] == name_hash(name) else None

    def _dangling(self) -> Iterator[Fault]:
        """Yield the deletion vectors of files that their snapshot does not have."""
        for ref in self._refs:
            name = ref.snapshot.index_manifest
            if name is None or ref.kind is RefKind.CHANGELOG:
                continue
            held = self._referenced.names[self._referenced.of(ref)]
            for e in self._store.read_index(name):
                names = [r.data_file for r in e.file.deletion_ranges or ()]
                there = np.isin(np.array([name_hash(n) for n in names], np.int64), held)
                for data_file in (n for n, known in zip(names, there.tolist(), strict=True) if not known):
                    yield Fault(
                        self._table.paths.index_file(e.partition, e.bucket, e.file),
                        Defect.DANGLING_VECTOR,
                        f"{ref.label} has no file {data_file}, which the vector belongs to",
                    )


def failed_verification(error: PaimonError) -> VerifiedDefect:
    """Return the defect of a table that cannot be verified."""
    return VerifiedDefect(Defect.UNREADABLE, _path_in(error.message), str(error))

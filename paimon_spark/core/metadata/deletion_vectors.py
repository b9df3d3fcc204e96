"""Deletion vectors of a table: locating, reading and writing them.

(docs/spec/semantics.md, section 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyroaring import BitMap

from paimon_spark.core.metadata_io import read_needed
from paimon_spark.core.table import Table
from paimon_spark.format.deletion_vectors import VectorFile, fingerprint, stored_vector, vector_in
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.bounds import Long
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    DataFileKey,
    DeletionRange,
    IndexFileMeta,
    IndexManifestEntry,
)

NO_VECTOR = 0
"""The fingerprint of a file without deleted rows."""


@dataclass(frozen=True, slots=True)
class VectorRef:
    """The location of a data file's deletion vector: index file, offset and length."""

    path: str
    offset: Long
    length: Long
    cardinality: Long | None = None


def vector_refs(table: Table, entries: Iterable[IndexManifestEntry]) -> dict[DataFileKey, VectorRef]:
    """Return the locations of deletion vectors by data file, from the index entries of a snapshot."""
    paths = table.paths
    return {
        DataFileKey(e.partition, e.bucket, r.data_file): VectorRef(
            paths.index_file(e.partition, e.bucket, e.file), r.offset, r.length, r.cardinality
        )
        for e in entries
        if e.file.index_type == DELETION_VECTORS_INDEX
        for r in e.file.deletion_ranges or ()
    }


class StoredVectors:
    """Reads deletion vectors; caches the last index file, because its other vectors are usually read next.

    The last vector is cached too: repeated access costs one check of its bytes.
    """

    def __init__(self, file_io: FileIO) -> None:
        self._io = file_io
        self._path = ""
        self._data = b""
        self._last: VectorRef | None = None
        self._block = b""

    def bitmap(self, data_file: str, ref: VectorRef | None) -> BitMap | None:
        """Return the deleted positions of a file; None if it has no deletion vector."""
        return None if ref is None else vector_in(self.stored(data_file, ref), _range(data_file, ref), ref.path)

    def fingerprint(self, data_file: str, ref: VectorRef | None) -> int:
        """Return a number that changes whenever another row of the file is deleted."""
        return NO_VECTOR if ref is None else fingerprint(self.stored(data_file, ref))

    def stored(self, data_file: str, ref: VectorRef) -> bytes:
        """Return the serialized deletion vector."""
        if ref != self._last:
            self._block = stored_vector(self._file(ref), _range(data_file, ref), ref.path)
            self._last = ref
        return self._block

    def _file(self, ref: VectorRef) -> bytes:
        if ref.path != self._path:
            self._data = read_needed(self._io, ref.path, "deletion vector file")
            self._path = ref.path
        return self._data


def _range(data_file: str, ref: VectorRef) -> DeletionRange:
    return DeletionRange(data_file, ref.offset, ref.length, ref.cardinality)


class VectorWriter:
    """Writes the deletion vectors of one bucket: one file, or, without buckets, files of the target size.

    Args:
        table: the table.
        partition: the partition.
        bucket: the bucket.
        put: writes a file.
    """

    def __init__(self, table: Table, partition: bytes, bucket: int, put: Callable[[str, bytes], None]) -> None:
        self._paths = table.paths
        self._place = (partition, bucket)
        self._put = put
        self._wide = table.options.flag("deletion-vectors.bitmap64")
        rolls = table.bucket_mode is BucketMode.BUCKET_UNAWARE
        self._target = table.options.memory("deletion-vector.index-file.target-size") if rolls else None
        self._open: VectorFile | None = None
        self._done: list[IndexFileMeta] = []

    def add(self, data_file: str, vector: BitMap) -> None:
        """Write the deletion vector of a data file."""
        self._current().add(data_file, vector)
        self._roll()

    def take_over(self, data_file: str, ref: VectorRef, vectors: StoredVectors) -> None:
        """Copy a stored deletion vector unchanged."""
        self._current().add_stored(_range(data_file, ref), vectors.stored(data_file, ref))
        self._roll()

    def add_nothing(self) -> None:
        """Begin a file, which stands for the bucket also if no vector follows."""
        self._current()

    def close(self) -> tuple[IndexFileMeta, ...]:
        """Close the last file; return the index file records of all files."""
        self._finish()
        return tuple(self._done)

    def _current(self) -> VectorFile:
        if self._open is None:
            self._open = VectorFile(wide=self._wide)
        return self._open

    def _roll(self) -> None:
        if self._target is not None and self._open is not None and self._open.size > self._target:
            self._finish()

    def _finish(self) -> None:
        file, self._open = self._open, None
        if file is None:
            return
        name = self._paths.new_index_name()
        self._put(self._paths.new_index_file(*self._place, name), file.data)
        self._done.append(
            IndexFileMeta(
                index_type=DELETION_VECTORS_INDEX,
                file_name=name,
                file_size=file.size,
                row_count=len(file.ranges),
                deletion_ranges=file.ranges,
            )
        )

"""Collects the positions of deleted rows by file, and writes the deletion vectors of the files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import FILE_PATH, POSITIONS, ROW_INDEX, VECTOR
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.deletion_vectors import NO_VECTOR, StoredVectors, VectorWriter
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError, EngineError
from paimon_spark.format.arrays import I64
from paimon_spark.format.file_index.roaring import MOST_ROWS, bitmap_of, parse_bitmap
from paimon_spark.spec.manifest import BucketKey, DataFileMeta, ManifestEntry


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of one file within a batch.

    Attributes:
        path: the file; None for rows that are in no file.
        rows: which rows of the batch.
        positions: their positions in the file.
        seen: the fingerprint of the deletion vector when they were read.
    """

    path: str | None
    rows: I64
    positions: I64
    seen: int


def rows_by_file(batch: pa.RecordBatch) -> list[FileRows]:
    """Return the rows of a batch by file; those that are in no file come first, if there are any.

    Raises:
        EngineError: rows of one file were selected with different deletion vectors.
    """
    paths = one_chunk(batch.column(FILE_PATH)).dictionary_encode()
    codes = values_of(paths.indices.cast(pa.int32()).fill_null(-1))
    positions = values_of(one_chunk(batch.column(ROW_INDEX)).cast(pa.int64()).fill_null(0))
    seen = values_of(one_chunk(batch.column(VECTOR)).cast(pa.int64()).fill_null(NO_VECTOR))
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(-1, len(paths.dictionary) + 1))
    out = []
    for code, path in enumerate((None, *paths.dictionary.to_pylist())):
        rows = order[bounds[code] : bounds[code + 1]]
        if not len(rows):
            continue
        first = int(seen[rows[0]])
        if path is not None and (seen[rows] != first).any():
            raise EngineError(f"Rows of the file '{path}' were selected with different deletion vectors.")
        out.append(FileRows(path, rows, positions[rows], first))
    return out


@dataclass(frozen=True, slots=True)
class FilePositions:
    """Positions in one file, and the fingerprint of its deletion vector when the rows were read."""

    path: str
    positions: BitMap
    seen: int

    @classmethod
    def of(cls, path: str | None, positions: I64, seen: int) -> FilePositions:
        """Return the positions of rows of a file.

        Raises:
            EngineError: the rows are in no file, or a position does not fit into a bitmap.
        """
        if path is None or (positions >> 32).any():
            raise EngineError("A row to delete has no position in a file.")
        return cls(path, bitmap_of(positions), seen)


def positions_by_file(batch: pa.RecordBatch) -> Iterator[FilePositions]:
    """Yield the positions of the rows of a batch by file, from `POSITIONS`, or from the position of each row."""
    if POSITIONS not in batch.schema.names:
        yield from (FilePositions.of(rows.path, rows.positions, rows.seen) for rows in rows_by_file(batch))
        return
    columns = (batch.column(name).to_pylist() for name in (FILE_PATH, POSITIONS, VECTOR))
    for path, bitmap, seen in zip(*columns, strict=True):
        yield FilePositions(path, parse_bitmap(bitmap, MOST_ROWS), NO_VECTOR if seen is None else seen)


def check_within(file: DataFileMeta, positions: BitMap) -> None:
    """Check positions in a file.

    Raises:
        EngineError: a position lies beyond the end of the file.
    """
    if positions.max() >= file.row_count:
        raise EngineError(f"A deleted row lies beyond the end of the file '{file.file_name}' ({file.row_count} rows).")


@dataclass(slots=True)
class _NewVectors:
    """Rows of one file to delete, and the fingerprint of the deletion vector when they were read."""

    entry: ManifestEntry
    seen: int
    positions: BitMap = field(default_factory=BitMap)


class MarkedPositions:
    """The positions that one task deletes. Memory: one bit per row of the files with such rows."""

    def __init__(self, table: Table, files: LiveFileLookup) -> None:
        self._table = table
        self._files = files
        self._vectors = StoredVectors(table.file_io)
        self._by_file: dict[str, _NewVectors] = {}
        self._written: list[str] = []

    def add(self, rows: FilePositions) -> None:
        """Add rows of a file.

        Raises:
            ConflictError: the file is no longer part of the table.
            EngineError: a position lies beyond the end of the file, or the rows were selected with different vectors.
        """
        marks = self._by_file.get(rows.path)
        if marks is None:
            marks = self._by_file[rows.path] = _NewVectors(self._files.entry(rows.path), rows.seen)
        file = marks.entry.file
        if rows.seen != marks.seen:
            raise EngineError(f"Rows of the file '{file.file_name}' were selected with different deletion vectors.")
        check_within(file, rows.positions)
        marks.positions |= rows.positions

    def is_current(self, entry: ManifestEntry, seen: int) -> bool:
        """Return whether a file still has the deletion vector of that fingerprint."""
        name = entry.file.file_name
        return self._vectors.fingerprint(name, self._files.vector(entry)) == seen

    def write(self) -> list[CommitMessage]:
        """Write the deletion vectors: rows deleted before, and now.

        Raises:
            ConflictError: other rows of a file were deleted since the rows were read.
        """
        buckets: dict[BucketKey, list[_NewVectors]] = defaultdict(list)
        for marks in self._by_file.values():
            buckets[marks.entry.bucket_key].append(marks)
        return [self._of_bucket(*key, buckets[key]) for key in sorted(buckets)]

    def abort(self) -> None:
        """Delete the written files."""
        delete_best_effort(self._table.file_io, self._written)

    def _of_bucket(self, partition: bytes, bucket: int, marked: list[_NewVectors]) -> CommitMessage:
        writer = VectorWriter(self._table, partition, bucket, self._put)
        for marks in marked:
            name = marks.entry.file.file_name
            if not self.is_current(marks.entry, marks.seen):
                raise ConflictError(
                    f"Another commit deleted rows of the file '{name}' of table {self._table.name}, which this "
                    "statement changes.",
                    hint="Nothing was written. Run the statement again: it will start from the new state.",
                )
            before = self._vectors.bitmap(name, self._files.vector(marks.entry))
            writer.add(name, marks.positions if before is None else before | marks.positions)
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=marked[0].entry.total_buckets,
            new_index_files=writer.close(),
            vectors_seen=tuple((m.entry.file.file_name, m.seen) for m in marked),
        )

    def _put(self, path: str, data: bytes) -> None:
        self._written.append(path)
        self._table.file_io.write(path, data)

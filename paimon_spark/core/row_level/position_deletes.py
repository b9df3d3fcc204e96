"""Merge-on-read changes of append tables: deletion vectors for removed rows, new files for new row versions.

No data file is read or replaced. Changes may arrive in any order: the positions of each file are collected in a bitmap.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.deletion_vectors import NO_VECTOR, StoredVectors, VectorWriter
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.errors import ConflictError, EngineError
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.manifest import BucketKey, ManifestEntry


@dataclass(slots=True)
class _NewVectors:
    """Rows of one file to delete, and the fingerprint of the deletion vector when they were read."""

    entry: ManifestEntry
    seen: int
    positions: BitMap = field(default_factory=BitMap)


class PositionDeleteWriter(AbortableWriter):
    """Applies the changes of one task.

    A batch has the columns of the table, ``_row_kind_`` (int8), and the file, position and deletion vector of the row:
    all are set for a row to delete or update, and null for a new row.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._rules = replace(WriteRules.of(table), kind_column=None)
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._files = LiveFileLookup(table)
        self._vectors_by_file: dict[str, _NewVectors] = {}
        self._written: list[str] = []

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is no longer part of the table.
        """
        self._add_positions(batch)
        kinds = values_of(one_chunk(batch.column(ROW_KIND)).cast(pa.int8()))
        kept = np.flatnonzero(kinds != RowKind.DELETE)
        if len(kept):
            rows = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))
            self._writer.write(prepare_batch(rows.select([f.name for f in self._rules.fields]), self._rules).columns)

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write buffered changes; return the messages with deletion vectors and added files."""
        buckets: dict[BucketKey, list[_NewVectors]] = defaultdict(list)
        for marks in self._vectors_by_file.values():
            buckets[marks.entry.bucket_key].append(marks)
        vectors = StoredVectors(self._table.file_io)
        return [*(self._vectors(*key, buckets[key], vectors) for key in sorted(buckets)), *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        delete_best_effort(self._table.file_io, self._written)

    def _add_positions(self, batch: pa.RecordBatch) -> None:
        """Add the positions of a batch to the bitmaps of their files."""
        paths = one_chunk(batch.column(FILE_PATH)).dictionary_encode()
        codes = values_of(paths.indices.cast(pa.int32()).fill_null(-1))
        positions = values_of(one_chunk(batch.column(ROW_INDEX)).cast(pa.int64()).fill_null(0))
        seen = values_of(one_chunk(batch.column(VECTOR)).cast(pa.int64()).fill_null(NO_VECTOR))
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
        for code, path in enumerate(paths.dictionary.to_pylist()):
            rows = order[bounds[code] : bounds[code + 1]]
            marks = self._of(path, int(seen[rows[0]]))
            if (seen[rows] != marks.seen).any():
                raise EngineError(
                    f"Rows of the file '{marks.entry.file.file_name}' were selected with different deletion vectors."
                )
            _add(marks, positions[rows])

    def _of(self, path: str, seen: int) -> _NewVectors:
        marks = self._vectors_by_file.get(path)
        if marks is None:
            marks = self._vectors_by_file[path] = _NewVectors(self._files.entry(path), seen)
        return marks

    def _vectors(
        self, partition: bytes, bucket: int, marked: list[_NewVectors], vectors: StoredVectors
    ) -> CommitMessage:
        """Write the deletion vectors of a bucket's files: rows deleted before, and now."""
        writer = VectorWriter(self._table, partition, bucket, self._put)
        for marks in marked:
            name, ref = marks.entry.file.file_name, self._files.vector(marks.entry)
            if vectors.fingerprint(name, ref) != marks.seen:
                raise ConflictError(
                    f"Another commit deleted rows of the file '{name}' of table {self._table.name}, which this "
                    "statement changes.",
                    hint="Nothing was written. Run the statement again: it will start from the new state.",
                )
            before = vectors.bitmap(name, ref)
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


def _add(marks: _NewVectors, positions: npt.NDArray[np.int64]) -> None:
    last = int(positions.max())
    if last >= marks.entry.file.row_count:
        raise EngineError(
            f"A deleted row lies beyond the end of the file '{marks.entry.file.file_name}' "
            f"({marks.entry.file.row_count} rows)."
        )
    marks.positions |= BitMap(array("I", positions.astype(np.uint32).tobytes()))

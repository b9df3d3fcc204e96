"""New values of some columns of rows in a table with data evolution: new files with only these columns.

A file covers a whole row range, so the rows of the range that are not updated keep their values by copies of them.
BLOB values are not copied: a row without a new value refers to an older file. Row ids stay.

(docs/spec/semantics.md, A10)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.deletion_vectors import NO_VECTOR
from paimon_spark.core.metadata.row_ranges import RowRange, blob_columns, row_ranges
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.stitched_rows import stitched_rows
from paimon_spark.core.row_level.changes_by_file import changes_by_file
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.marked_positions import FilePositions, MarkedPositions
from paimon_spark.core.row_level.stored_chunks import StoredChunks
from paimon_spark.core.table import Table
from paimon_spark.core.write.blob_files import BlobFileWriter
from paimon_spark.core.write.rolling import RollingWriter, created_now
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.errors import EngineError
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.manifest import BucketKey, DataFileMeta, ManifestEntry
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.types import DataField

_ROWS_WITHOUT_VALUES = 65536
_NUMBER = "_number_"


class ColumnUpdater(AbortableWriter):
    """Applies the changes of one task.

    A batch has the columns of the table, `ROW_KIND` (int8), and the file, position and deletion vector of the row:
    all are set for a row to delete or update, and null for a new row. Of an updated row, the changed columns count.
    Rows are sorted by file and position, new rows first. Memory: the old values of some rows of a range, and the
    changes of these rows.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._inserted = replace(WriteRules.of(table), kind_column=None)
        kept = self._inserted.without_defaults()
        self._rules = replace(kept, fields=tuple(f for f in kept.fields if f.name in plan.columns))
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._ranges = _LiveRanges(LiveFileLookup(table, plan.columns_of))
        self._marks = MarkedPositions(table, LiveFileLookup(table))
        self._open: _OpenRange | None = None
        self._done: set[str] = set()
        self._messages: list[CommitMessage] = []

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is no longer part of the table.
        """
        for path, part in changes_by_file(batch):
            if path is None:
                names = [f.name for f in self._inserted.fields]
                self._writer.write(prepare_batch(part.select(names), self._inserted).columns)
            else:
                self._change_range(path, part)

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write buffered changes; return the messages with added files and deletion vectors."""
        self._close()
        return [*self._messages, *self._marks.write(), *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        paths = self._table.paths
        done = ((m, file) for m in self._messages for file in m.new_files)
        written = (path for m, file in done for path in paths.file_paths(m.partition, m.bucket, file))
        delete_best_effort(self._table.file_io, written)
        self._writer.abort()
        self._marks.abort()

    def _change_range(self, path: str, part: pa.RecordBatch) -> None:
        positions = values_of(one_chunk(part.column(ROW_INDEX)).cast(pa.int64()))
        gone = values_of(one_chunk(part.column(ROW_KIND)).cast(pa.int8())) == RowKind.DELETE
        if gone.any():
            seen = values_of(one_chunk(part.column(VECTOR)).cast(pa.int64()).fill_null(NO_VECTOR))
            self._marks.add(FilePositions.of(path, positions[gone], int(seen[gone][0])))
        kept = np.flatnonzero(~gone)
        if not len(kept) or not self._rules.fields:
            return
        if self._open is None or self._open.path != path:
            self._close()
            self._open = self._begin(path)
        rows = part.select([f.name for f in self._rules.fields]).take(pa.array(kept))
        self._open.change(positions[kept], prepare_batch(rows, self._rules).columns)

    def _begin(self, path: str) -> _OpenRange:
        if path in self._done:
            raise EngineError(f"The changes to the file {path} of table {self._table.name} are not consecutive.")
        self._done.add(path)
        entry, found = self._ranges.of(path)
        return _OpenRange(self._table, path, entry, found, self._rules.fields)

    def _close(self) -> None:
        if self._open is not None:
            self._messages.append(self._open.finish())
            self._open = None


@dataclass(slots=True)
class _LiveRanges:
    """The row ranges of a snapshot, by the file that represents their rows."""

    files: LiveFileLookup
    _by_bucket: dict[BucketKey, dict[str, RowRange]] | None = None

    def of(self, path: str) -> tuple[ManifestEntry, RowRange]:
        """Return the entry of the file that represents the rows of a range, and the range.

        Raises:
            ConflictError: it is not part of the table.
            EngineError: the file does not represent rows.
        """
        entry = self.files.entry(path)
        if self._by_bucket is None:
            buckets: dict[BucketKey, list[DataFileMeta]] = {}
            for e in self.files.entries():
                buckets.setdefault(e.bucket_key, []).append(e.file)
            self._by_bucket = {k: {r.anchor.file_name: r for r in row_ranges(v)} for k, v in buckets.items()}
        found = self._by_bucket[entry.bucket_key].get(entry.file.file_name)
        if found is None or found.anchor.first_row_id is None:
            raise EngineError(f"The rows of the file {path} have no ids of their own, so their columns cannot change.")
        return entry, found


class _OpenRange:
    """The new file of a range, and those of its BLOB columns."""

    def __init__(
        self, table: Table, path: str, entry: ManifestEntry, found: RowRange, fields: Sequence[DataField]
    ) -> None:
        self.path = path
        self._entry = entry
        self._found = found
        blobs = blob_columns(table)
        self._plain = tuple(f for f in fields if f.name not in blobs)
        place = (entry.partition, entry.bucket)
        self._chunks = StoredChunks(path, _old_values(BucketFiles(table, *place), found, self._plain))
        names = frozenset(f.name for f in self._plain)
        self._writer = RollingWriter.of_columns(table, *place, names) if names else None
        directory = table.paths.bucket_dir(*place)
        self._blobs = {f.name: BlobFileWriter(table, directory, f.name, created_now) for f in fields if f.name in blobs}
        self._changed: list[I64] = []
        self._values: list[pa.Table] = []

    def change(self, positions: I64, values: pa.Table) -> None:
        """Add new values of rows, in position order."""
        at = 0
        while at < len(positions):
            while positions[at] >= self._chunks.end:
                self._flush()
                self._chunks.open_next()
            upto = int(np.searchsorted(positions, self._chunks.end))
            self._changed.append(positions[at:upto] - self._chunks.start)
            self._values.append(values.slice(at, upto - at))
            at = upto

    def finish(self) -> CommitMessage:
        """Write the rest of the range; return the message with its new files."""
        self._flush()
        for rows in self._chunks.rest():
            self._write(rows, np.zeros(0, np.int64), None)
        files: list[DataFileMeta] = []
        for written in (
            [] if self._writer is None else self._writer.close(),
            *(b.roll() for b in self._blobs.values()),
        ):
            files += _numbered(written, self._found)
        return CommitMessage(
            partition=self._entry.partition,
            bucket=self._entry.bucket,
            total_buckets=self._entry.total_buckets,
            new_files=tuple(files),
        )

    def abort(self) -> None:
        """Delete the written files."""
        if self._writer is not None:
            self._writer.abort()
        for blobs in self._blobs.values():
            blobs.abort()

    def _flush(self) -> None:
        rows = self._chunks.close()
        if rows is None:
            return
        changed, values = self._changed, self._values
        self._changed, self._values = [], []
        if not changed:
            self._write(rows, np.zeros(0, np.int64), None)
        else:
            self._write(rows, np.concatenate(changed), pa.concat_tables(values))

    def _write(self, rows: pa.Table, changed: I64, values: pa.Table | None) -> None:
        """Write the rows of a chunk: at `changed` with the new `values`, elsewhere with those that they have."""
        n = rows.num_rows
        new = np.full(n, -1, np.int64)
        new[changed] = np.arange(len(changed))
        if self._writer is not None:
            self._writer.write(rows if values is None else _merged(rows, new, values.select(rows.column_names)))
        for name, blobs in self._blobs.items():
            if values is None:
                given = pa.chunked_array([pa.nulls(n, pa.binary())])
            else:
                given = values.column(name).take(pa.array(new, mask=new < 0))
            blobs.write(given, new < 0)


def _merged(rows: pa.Table, new: I64, values: pa.Table) -> pa.Table:
    """Return `rows` with the row of `values` at `new`, where that is not negative."""
    schema = rows.schema
    columns = [c if c.type == f.type else c.cast(f.type) for f, c in ((f, values.column(f.name)) for f in schema)]
    both = pa.concat_tables([rows, pa.Table.from_arrays(columns, schema=schema)])
    return both.take(pa.array(np.where(new < 0, np.arange(len(new)), rows.num_rows + new)))


def _old_values(files: BucketFiles, found: RowRange, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    """Yield columns of all rows of a range, deleted ones included; without columns, just tables of as many rows."""
    if fields:
        yield from stitched_rows(files, found.files, fields, TRUE, ())
        return
    for start in range(0, found.rows, _ROWS_WITHOUT_VALUES):
        yield pa.table({_NUMBER: pa.nulls(min(_ROWS_WITHOUT_VALUES, found.rows - start))})


def _numbered(files: Sequence[DataFileMeta], found: RowRange) -> Iterator[DataFileMeta]:
    """Yield consecutive files of a range with the ids of their first rows."""
    first = found.first
    for file in files:
        yield replace(file, first_row_id=first)
        first += file.row_count
    if files and first != found.first + found.rows:
        raise EngineError(f"{first - found.first} values were written for the {found.rows} rows of a range.")

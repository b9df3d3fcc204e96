"""Copy-on-write changes of append tables: files with changed rows are rewritten, all others are kept.

Changes are sorted by file and position, so a file is read once, one row group at a time, and only the changes of one
row group are buffered. Unchanged rows keep their values and their order. In a table with row tracking, unchanged and
updated rows keep their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import ROW_INDEX, ROW_KIND, TRACKING_FIELDS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.row_tracking import tracks_rows, with_kept_ids
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.row_level.changes_by_file import changes_by_file
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.stored_chunks import StoredChunks
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.errors import EngineError, UnsupportedError
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import ROW_ID, RowKind


class CopyOnWriteRewriter(AbortableWriter):
    """Applies the changes of one task.

    A batch has the columns of the table, `ROW_KIND` (int8), and the file and position of the row: both are set for
    a row to delete or update, and null for a new row. Rows are sorted by file and position, new rows first.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._rules = replace(WriteRules.of(table), kind_column=None)
        self._writer = TableWriter(table, plan, fill_defaults=False)
        tracked = tracks_rows(table)
        self._fields = (*table.schema.fields, *(TRACKING_FIELDS if tracked else ()))
        self._kept = TableWriter(table, plan, fill_defaults=False, tracked=True) if tracked else self._writer
        self._files = LiveFileLookup(table)
        self._open: _OpenFile | None = None
        self._messages: list[CommitMessage] = []
        self._done: set[str] = set()

    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is no longer part of the table.
        """
        for path, part in changes_by_file(batch):
            if path is None:
                self._writer.write(self._new_rows(part))
            else:
                self._change_file(path, part)

    def finish(self) -> list[CommitMessage]:
        """Write buffered changes; return the messages with removed and added files."""
        self._close()
        kept = [] if self._kept is self._writer else self._kept.finish()
        return [*self._messages, *kept, *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        self._kept.abort()

    def _change_file(self, path: str, part: pa.RecordBatch) -> None:
        if self._open is None or self._open.path != path:
            self._close()
            self._open = self._begin(path)
        positions = values_of(one_chunk(part.column(ROW_INDEX)).cast(pa.int64()))
        kinds = values_of(one_chunk(part.column(ROW_KIND)).cast(pa.int8()))
        self._open.change(positions, kinds == RowKind.DELETE, part)

    def _begin(self, path: str) -> _OpenFile:
        if path in self._done:
            raise EngineError(f"The changes to the file {path} of table {self._table.name} are not consecutive.")
        self._done.add(path)
        entry = self._files.entry(path)
        if self._files.vector(entry) is not None:
            raise UnsupportedError(
                f"Rows of the file '{entry.file.file_name}' of table {self._table.name} are marked as deleted, but its "
                "deletion vectors are disabled: rewriting it would restore these rows.",
                hint="Set 'deletion-vectors.enabled' = 'true' again, or compact the table first.",
            )
        self._messages.append(
            CommitMessage(
                partition=entry.partition,
                bucket=entry.bucket,
                total_buckets=entry.total_buckets,
                deleted_files=(entry.file,),
            )
        )
        files = BucketFiles(self._table, entry.partition, entry.bucket)
        return _OpenFile(path, files.chunks(entry.file, self._fields), self)

    def _close(self) -> None:
        if self._open is not None:
            self._open.finish()
            self._open = None

    def write(self, rows: pa.Table) -> None:
        """Write rows unchanged."""
        self._kept.write(rows)

    def _new_rows(self, part: pa.RecordBatch | pa.Table) -> pa.Table:
        return prepare_batch(part.select([f.name for f in self._rules.fields]), self._rules).columns

    def replacements(self, part: pa.RecordBatch, positions: I64) -> pa.Table:
        """Return the rows of `part` at `positions` as stored in the table."""
        return self._new_rows(part.take(pa.array(positions)))


class _OpenFile:
    """A file being rewritten."""

    def __init__(self, path: str, chunks: Iterator[pa.Table], rewriter: CopyOnWriteRewriter) -> None:
        self.path = path
        self._chunks = StoredChunks(path, chunks)
        self._rewriter = rewriter
        self._gone: list[I64] = []
        self._changed: list[I64] = []
        self._values: list[pa.Table] = []

    def change(self, positions: I64, gone: npt.NDArray[np.bool_], part: pa.RecordBatch) -> None:
        """Apply changes of this file, in position order."""
        at = 0
        while at < len(positions):
            while positions[at] >= self._chunks.end:
                self._flush()
                self._chunks.open_next()
            upto = int(np.searchsorted(positions, self._chunks.end))
            here, removed = positions[at:upto] - self._chunks.start, gone[at:upto]
            self._gone.append(here[removed])
            self._changed.append(here[~removed])
            kept = np.flatnonzero(~removed) + at
            if len(kept):
                self._values.append(self._rewriter.replacements(part, kept))
            at = upto

    def finish(self) -> None:
        """Write the rest of the file."""
        self._flush()
        for rows in self._chunks.rest():
            self._rewriter.write(rows)

    def _flush(self) -> None:
        rows = self._chunks.close()
        if rows is None:
            return
        gone, changed, values = _joined(self._gone), _joined(self._changed), self._values
        self._gone, self._changed, self._values = [], [], []
        order: npt.NDArray[Any] = np.arange(rows.num_rows)
        if values:
            order[changed] = rows.num_rows + np.arange(len(changed))
            new = pa.concat_tables(values)
            if ROW_ID in rows.schema.names:
                new = with_kept_ids(new, rows, pa.array(changed))
            rows = pa.concat_tables([rows, _as_stored(new, rows.schema)])
        if len(gone):
            keep = np.ones(len(order), dtype=np.bool_)
            keep[gone] = False
            order = order[keep]
        if len(order):
            whole = not values and not len(gone)
            self._rewriter.write(rows if whole else rows.take(pa.array(order)))


def _joined(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _as_stored(new: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return changed rows with the columns of the file's rows; a cast would refuse null rows with NOT NULL members."""
    columns = [c if c.type == f.type else c.cast(f.type) for f, c in ((f, new.column(f.name)) for f in schema)]
    return pa.Table.from_arrays(columns, schema=schema)

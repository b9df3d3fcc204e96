"""Merge-on-read changes of append tables: deletion vectors for removed rows, new files for new row versions.

No data file is replaced. Changes may arrive in any order: the positions of each file are collected in a bitmap. In a
table with row tracking, updated rows keep their ids; they are read from files that store them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import POSITIONS, ROW_KIND, TRACKING_FIELDS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.row_tracking import stored_tracking, tracks_rows, with_ids
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.marked_positions import FilePositions, MarkedPositions, positions_by_file, rows_by_file
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import RowKind


class PositionDeleteWriter(AbortableWriter):
    """Applies the changes of one task.

    A batch has the columns of the table, `ROW_KIND` (int8), and the file, position and deletion vector of the row:
    all are set for a row to delete or update, and null for a new row. A batch that only deletes rows may have the file,
    its deletion vector and the `POSITIONS` of the rows.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._rules = replace(WriteRules.of(table), kind_column=None)
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._tracked = TableWriter(table, plan, fill_defaults=False, tracked=True) if tracks_rows(table) else None
        self._files = LiveFileLookup(table)
        self._marks = MarkedPositions(table, self._files)
        self._stored_ids: dict[str, I64] = {}

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is no longer part of the table.
        """
        if POSITIONS in batch.schema.names:
            for rows in positions_by_file(batch):
                self._marks.add(rows)
            return
        ids = np.full(batch.num_rows, -1, np.int64)
        stays = values_of(one_chunk(batch.column(ROW_KIND)).cast(pa.int8())) != RowKind.DELETE
        for part in rows_by_file(batch):
            if part.path is not None:
                self._marks.add(FilePositions.of(part.path, part.positions, part.seen))
                kept = stays[part.rows]
                if self._tracked is not None and kept.any():
                    ids[part.rows[kept]] = self._row_ids(part.path, part.positions[kept])
        self._write(batch, np.flatnonzero(stays & (ids < 0)), None)
        self._write(batch, np.flatnonzero(stays & (ids >= 0)), ids)

    def _write(self, batch: pa.RecordBatch, kept: I64, ids: I64 | None) -> None:
        """Write the rows of `batch` at `kept`, with `ids` if they have any."""
        if not len(kept):
            return
        rows = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))
        new = prepare_batch(rows.select([f.name for f in self._rules.fields]), self._rules).columns
        if ids is None or self._tracked is None:
            self._writer.write(new)
        else:
            self._tracked.write(with_ids(new, pa.array(ids[kept])))

    def _row_ids(self, path: str, positions: I64) -> I64:
        entry = self._files.entry(path)
        file = entry.file
        if file.first_row_id is not None and not stored_tracking(file):
            return file.first_row_id + positions
        found = self._stored_ids.get(path)
        if found is None:
            files = BucketFiles(self._table, entry.partition, entry.bucket)
            chunks = [c.column(0) for c in files.chunks(file, TRACKING_FIELDS[:1])]
            found = self._stored_ids[path] = np.concatenate([values_of(one_chunk(c)) for c in chunks])
        return found[positions]

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write buffered changes; return the messages with deletion vectors and added files."""
        tracked = self._tracked.finish() if self._tracked is not None else []
        return [*self._marks.write(), *tracked, *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        if self._tracked is not None:
            self._tracked.abort()
        self._marks.abort()

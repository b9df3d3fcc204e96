"""Merge-on-read changes of append tables: deletion vectors for removed rows, new files for new row versions.

No data file is read or replaced. Changes may arrive in any order: the positions of each file are collected in a bitmap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.marked_positions import MarkedPositions, rows_by_file
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.spec.kinds import RowKind


class PositionDeleteWriter(AbortableWriter):
    """Applies the changes of one task.

    A batch has the columns of the table, ``_row_kind_`` (int8), and the file, position and deletion vector of the row:
    all are set for a row to delete or update, and null for a new row.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._rules = replace(WriteRules.of(table), kind_column=None)
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._marks = MarkedPositions(table, LiveFileLookup(table))

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is no longer part of the table.
        """
        for part in rows_by_file(batch):
            if part.path is not None:
                self._marks.add(part.path, part.positions, part.seen)
        kinds = values_of(one_chunk(batch.column(ROW_KIND)).cast(pa.int8()))
        kept = np.flatnonzero(kinds != RowKind.DELETE)
        if len(kept):
            rows = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))
            self._writer.write(prepare_batch(rows.select([f.name for f in self._rules.fields]), self._rules).columns)

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write buffered changes; return the messages with deletion vectors and added files."""
        return [*self._marks.write(), *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        self._marks.abort()

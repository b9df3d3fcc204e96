"""DELETE in a table with a primary key and deletion vectors: rows are marked in deletion vectors if that is equivalent.

A row above level 0 is the only version of its key unless a level-0 file holds another one. Marking such a row deletes
it. All other rows are deleted by a row of kind ``-D``, which the next compaction merges: those at level 0, those beside
a level-0 file of overlapping keys, and those whose file another commit has replaced since they were read.
(docs/spec/semantics.md, V8)
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np
import pyarrow as pa

from paimon_spark.core.columns import METADATA_COLUMNS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.levels import KeyRange, key_range
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.marked_positions import MarkedPositions, rows_by_file
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.format.arrays import I64
from paimon_spark.spec.manifest import BucketKey, ManifestEntry


class KeyedDeleteWriter(AbortableWriter):
    """Deletes the rows of one task.

    A batch has the columns of the table, ``_row_kind_`` (int8, delete), and the file, position and deletion vector of
    each row.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._files = LiveFileLookup(table)
        self._marks = MarkedPositions(table, self._files)
        self._markable: dict[tuple[str, int], bool] = {}

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add rows to delete."""
        written: list[I64] = []
        for part in rows_by_file(batch):
            if part.path is not None and self._marks_rows_of(part.path, part.seen):
                self._marks.add(part.path, part.positions, part.seen)
            else:
                written.append(part.rows)
        if written:
            names = [n for n in batch.schema.names if n not in METADATA_COLUMNS]
            chosen = np.sort(np.concatenate(written))
            rows = batch.select(names)
            self._writer.write(rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen)))

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write buffered rows; return the messages with deletion vectors and added files."""
        return [*self._marks.write(), *self._writer.finish()]

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        self._marks.abort()

    def _marks_rows_of(self, path: str, seen: int) -> bool:
        """Return whether rows of a file are marked; decided once per file and vector."""
        known = self._markable.get((path, seen))
        if known is None:
            entry = self._files.find(path)
            known = entry is not None and self._is_alone(entry) and self._marks.is_current(entry, seen)
            self._markable[path, seen] = known
        return known

    def _is_alone(self, entry: ManifestEntry) -> bool:
        """Return whether no level-0 file may hold a version of a row of a file."""
        if entry.file.level == 0:
            return False
        first, last = key_range(entry.file, self._table.key_types)
        return not any(low <= last and first <= high for low, high in self._at_level_0.get(entry.bucket_key, ()))

    @cached_property
    def _at_level_0(self) -> dict[BucketKey, list[KeyRange]]:
        """The key ranges of the level-0 files, by bucket."""
        found: dict[BucketKey, list[KeyRange]] = defaultdict(list)
        for e in self._files.entries():
            if e.file.level == 0:
                found[e.bucket_key].append(key_range(e.file, self._table.key_types))
        return found

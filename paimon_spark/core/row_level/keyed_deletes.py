"""DELETE in a table with a primary key and deletion vectors: rows are marked in deletion vectors if that is equivalent.

A row above level 0 is the only version of its key unless a level-0 file holds another one. Marking such a row deletes
it. All other rows are deleted by a row of kind ``-D``, which the next compaction merges: those at level 0, those beside
a level-0 file of overlapping keys, and those of a file whose vector another commit has replaced since they were read.
They are read from their files, so a statement needs no other column than those of its condition.
(docs/spec/semantics.md, V8)
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.levels import KeyRange, key_range
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.marked_positions import MarkedPositions, check_within, positions_by_file
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.format.deletion_vectors import positions
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.manifest import BucketKey, ManifestEntry


class KeyedDeleteWriter(AbortableWriter):
    """Deletes the rows of one task.

    A batch has the file, position and deletion vector of each row, in any order, or the positions of the rows of a file
    in `POSITIONS`. Memory: one bit per row of the files with such rows, and the buffer of the rows that are written.
    """

    def __init__(self, table: Table, plan: WriterRestoreState) -> None:
        self._table = table
        self._writer = TableWriter(table, plan, fill_defaults=False)
        self._files = LiveFileLookup(table)
        self._marks = MarkedPositions(table, self._files)
        self._markable: dict[tuple[str, int], bool] = {}
        self._retracted: dict[str, BitMap] = defaultdict(BitMap)

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add rows to delete.

        Raises:
            ConflictError: a file with such rows is no longer part of the table.
        """
        for part in positions_by_file(batch):
            if self._marks_rows_of(part.path, part.seen):
                self._marks.add(part)
            else:
                check_within(self._files.entry(part.path).file, part.positions)
                self._retracted[part.path] |= part.positions

    @property
    def bytes_to_read(self) -> int:
        """Return the size of the files with rows that are deleted by writing them."""
        return sum(self._files.entry(path).file.file_size for path in self._retracted)

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write the vectors and the retracts; return the messages with deletion vectors and added files."""
        marked = self._marks.write()
        for path in sorted(self._retracted):
            self._retract(self._files.entry(path), self._retracted[path])
        return [*marked, *self._writer.finish()]

    def _retract(self, entry: ManifestEntry, chosen: BitMap) -> None:
        files, start = BucketFiles(self._table, entry.partition, entry.bucket), 0
        for rows in files.chunks(entry.file, self._table.schema.fields):
            here = positions(chosen, start, start + rows.num_rows) - start
            start += rows.num_rows
            if len(here):
                kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), len(here))
                self._writer.write(rows.take(pa.array(here)).append_column(ROW_KIND, kinds))

    def abort(self) -> None:
        """Delete the written files."""
        self._writer.abort()
        self._marks.abort()

    def _marks_rows_of(self, path: str, seen: int) -> bool:
        """Return whether rows of a file are marked; decided once per file and vector."""
        known = self._markable.get((path, seen))
        if known is None:
            entry = self._files.entry(path)
            known = self._is_alone(entry) and self._marks.is_current(entry, seen)
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

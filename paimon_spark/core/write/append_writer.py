"""Streams the rows of one bucket of an append table into data files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.core.write.row_conversion import Rows
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DataFileMeta

_APPEND_CHUNK = 8 << 20


class AppendWriter:
    """Streams rows of one bucket of an append table into files."""

    def __init__(
        self, table: Table, partition: bytes, bucket: int, first_sequence: int, *, tracked: bool = False
    ) -> None:
        self._writer = RollingWriter(
            table,
            partition,
            bucket,
            level=0,
            source=FileSource.APPEND,
            first_sequence=first_sequence,
            tracked=tracked,
        )
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes buffered here and in the open file."""
        return self._waiting_bytes + self._writer.buffered_bytes

    def add(self, rows: Rows, size: int) -> None:
        """Buffer rows."""
        self._waiting.append(rows.columns)
        self._waiting_bytes += size
        if self._waiting_bytes >= _APPEND_CHUNK:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the buffered rows to the file."""
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._writer.write(pa.concat_tables(waiting).combine_chunks())

    def flush(self) -> None:
        """Write out all rows buffered here and in the file."""
        self._write_waiting()
        self._writer.flush()

    @property
    def is_open(self) -> bool:
        """Return whether a file is open."""
        return self._writer.is_open

    def roll(self) -> None:
        """Close the open file; the rows buffered here go to the next one."""
        self._writer.roll()

    def detach(self) -> None:
        """Copy the buffered rows so that the batches they are slices of can be freed."""
        self._waiting = own_copy(self._waiting)

    def finish(self) -> list[DataFileMeta]:
        """Write the buffered rows; return all files."""
        self._write_waiting()
        return self._writer.close()

    def abort(self) -> None:
        """Delete the written files."""
        self._waiting = []
        self._writer.abort()


def own_copy(tables: list[pa.Table]) -> list[pa.Table]:
    """Return a copy of the rows: a slice keeps its whole batch in memory."""
    if not tables:
        return tables
    rows = pa.concat_tables(tables)
    return [rows.take(pa.array(np.arange(rows.num_rows, dtype=np.int64)))]

"""Writes the values of one BLOB column into files of their own, beside the data files of the same rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I64
from paimon_spark.format.blob import ELSEWHERE, framed, index_of
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta
from paimon_spark.spec.paths import file_in

_SLICE_BYTES = 16 << 20
_STEPS_A_FILE = 8
"""Number of checks of a file's size until it is full."""


class BlobFileWriter:
    """Writes the values of the BLOB column `column` into files in `directory`; `now` returns their time of creation."""

    def __init__(self, table: Table, directory: str, column: str, now: Callable[[], int]) -> None:
        self._table = table
        self._directory = directory
        self._column = column
        self._now = now
        self.target = table.options.blob_target_file_size
        self._open: _OpenFile | None = None
        self._done: list[DataFileMeta] = []
        self._names: list[str] = []

    def write(self, values: pa.ChunkedArray, elsewhere: npt.NDArray[np.bool_] | None = None) -> None:
        """Write values, rolling over to a new file when the current one is full.

        Rows for which `elsewhere` is true keep the value of an older file; they are null here.
        """
        width = max(1, values.nbytes // max(1, len(values)))
        step = max(1, min(self.target // _STEPS_A_FILE, _SLICE_BYTES) // width)
        for start in range(0, len(values), step):
            current = self._open or self._begin()
            kept = None if elsewhere is None else elsewhere[start : start + step]
            current.add(one_chunk(values.slice(start, step)), kept)
            if current.size >= self.target:
                self._finish()

    def roll(self) -> list[DataFileMeta]:
        """Close the open file; return the metadata of all files since the last call."""
        self._finish()
        done, self._done = self._done, []
        return done

    def abort(self) -> None:
        """Delete all written files."""
        if self._open is not None:
            self._open.out.close()
            self._open = None
        delete_best_effort(self._table.file_io, (file_in(self._directory, name) for name in self._names))

    def _begin(self) -> _OpenFile:
        name = self._table.paths.new_data_file("blob")
        self._names.append(name)
        self._open = _OpenFile(name, self._table.file_io.open_output(file_in(self._directory, name)))
        return self._open

    def _finish(self) -> None:
        if self._open is None:
            return
        opened, self._open = self._open, None
        opened.out.write(index_of(opened.lengths))
        size = int(opened.out.tell())
        opened.out.close()
        self._done.append(
            DataFileMeta(
                file_name=opened.name,
                file_size=size,
                row_count=sum(map(len, opened.lengths)),
                value_stats=EMPTY_STATS,
                value_stats_cols=(),
                write_cols=(self._column,),
                min_sequence_number=0,
                max_sequence_number=0,
                schema_id=self._table.schema.id,
                level=0,
                creation_time=self._now(),
                delete_row_count=0,
                file_source=FileSource.APPEND,
            )
        )


class _OpenFile:
    """A file being written, and the lengths of its values."""

    def __init__(self, name: str, out: pa.NativeFile) -> None:
        self.name = name
        self.out = out
        self.lengths: list[I64] = []

    @property
    def size(self) -> int:
        """Return the number of written bytes of values."""
        return int(self.out.tell())

    def add(self, values: pa.Array, elsewhere: npt.NDArray[np.bool_] | None) -> None:
        """Write values; see `BlobFileWriter.write`."""
        data, lengths = framed(values)
        self.out.write(data)
        self.lengths.append(lengths if elsewhere is None else np.where(elsewhere, ELSEWHERE, lengths))

"""The interface of file formats: readers with row groups, writers with statistics.

A reader returns exactly the Arrow types of `arrow_types.to_arrow_type`, whatever types the file stores. A requested
column that is missing in the file is returned as nulls: files may lack columns, such as partition columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.fs.base import FileIO
from paimon_spark.spec.stats import ColumnStats, StatsMode
from paimon_spark.spec.types import DataField

LEAST_CHUNK_ROWS, _MOST_CHUNK_ROWS = 1024, 1 << 18
DEFAULT_BATCH_ROWS = 65536


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed data file: its exact size, row count, and statistics per field in the order of the writer's fields."""

    size: int
    rows: int
    stats: tuple[ColumnStats, ...]


def rows_within(chunk_bytes: int, row_bytes: float) -> int:
    """Return the number of rows of a given width that take about `chunk_bytes`, within limits."""
    return min(max(int(chunk_bytes / max(1.0, row_bytes)), LEAST_CHUNK_ROWS), _MOST_CHUNK_ROWS)


class FileReader(Protocol):
    """An open data file. A row group is the unit of loading: a Parquet row group, an ORC stripe, a whole Avro file.

    Each method raises CorruptTableError, with the file's path, if the file is damaged.
    """

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        ...

    @property
    def row_group_rows(self) -> tuple[int, ...]:
        """Return the number of rows of each row group."""
        ...

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""
        ...

    def select_row_groups(self, expression: pc.Expression | None) -> list[int]:
        """Return the row groups that may contain a row for which `expression` is true, by their statistics."""
        ...

    def has_match(self, row_group: int, expression: pc.Expression, columns: Sequence[str]) -> bool:
        """Return whether `expression` may be true for a row of a row group; only its `columns` are decoded.

        A format that cannot read some columns of a row group for less than all of them returns True.
        """
        ...

    def batches(
        self, batch_rows: int = DEFAULT_BATCH_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some or all row groups in file order."""
        ...

    def chunks(
        self, row_groups: Sequence[int], chunk_bytes: int, *, streamed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some row groups in batches of about `chunk_bytes` in memory, which may span row groups.

        With `streamed`, the reader buffers as little of the file as the format allows. Use it to merge many files; a
        single file is read faster without.
        """
        ...

    def close(self) -> None:
        """Close the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileWriter(Protocol):
    """A writer of one data file. Batches have the columns and types of the writer's fields."""

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        ...

    @property
    def bytes_written(self) -> int:
        """Return the approximate file size if it were closed now."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Return the approximate size of buffered rows."""
        ...

    def flush(self) -> None:
        """Write out buffered rows if the format can; rows that remain buffered are written on close."""
        ...

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        ...

    def close(self) -> WrittenFile:
        """Finish and close the file."""
        ...

    def abort(self) -> None:
        """Close and delete the file."""
        ...


class DataFormat(Protocol):
    """A file format."""

    @property
    def name(self) -> str:
        """Return the name, which is also the file suffix."""
        ...

    def open_reader(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None
    ) -> FileReader:
        """Open a data file to read `fields`, named as in the file's schema.

        Args:
            file_io: the store of the file.
            path: path of the file.
            fields: columns to read, with the requested types.
            file_size: size recorded in the manifest, for the error message if the file is damaged.
        """
        ...

    def open_writer(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        *,
        stats_modes: Sequence[StatsMode] | None = None,
        compression: str = "zstd",
        options: Mapping[str, str] | None = None,
    ) -> FileWriter:
        """Open a new data file.

        Args:
            file_io: the store to write to.
            path: path of the file.
            fields: physical columns in order; field ids are written to the file.
            stats_modes: statistics mode of each field; none are collected by default.
            compression: value of `file.compression`.
            options: options of the table; the writer applies `file.compression.zstd-level`, `file.block-size` and those
                that begin with the format's name.
        """
        ...

    def check_values(self, name: str, column: pa.ChunkedArray) -> None:
        """Reject values that some reader of the format would lose or misread; most formats have none.

        Args:
            name: name of the column, for the error message.
            column: values of the column.

        Raises:
            ArgumentError: the column has such a value.
        """
        ...

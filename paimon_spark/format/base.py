"""What a file format offers: readers with row groups, writers with statistics.

Whatever a file holds, a reader delivers exactly the Arrow types of `arrow_types.to_arrow_type`. A wanted column that
the file lacks comes as nulls: files of thin tables, and files without their partition columns, are normal.
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
    """A closed data file: exact size, rows, and the statistics of each field in the order of the writer's fields."""

    size: int
    rows: int
    stats: tuple[ColumnStats, ...]


def rows_within(chunk_bytes: int, row_bytes: float) -> int:
    """Return how many rows of a width take about `chunk_bytes`, within reason."""
    return min(max(int(chunk_bytes / max(1.0, row_bytes)), LEAST_CHUNK_ROWS), _MOST_CHUNK_ROWS)


class FileReader(Protocol):
    """One open data file. A row group is the unit of loading: a Parquet row group, an ORC stripe, a whole Avro file.

    Every method raises CorruptTableError, naming the file, where the bytes are not what they should be.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that the file has."""
        ...

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
        """Return the row groups that may hold a row for which `expression` is true, by their statistics."""
        ...

    def batches(
        self, batch_rows: int = DEFAULT_BATCH_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some or all row groups in file order."""
        ...

    def chunks(self, row_group: int, chunk_bytes: int, *, streamed: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in batches that take about `chunk_bytes` in memory.

        With `streamed`, as little of the file is in memory at a time as the format allows: right for a merge of many
        files, while one file is read faster without.
        """
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileWriter(Protocol):
    """One data file in the making. Batches have the columns and types of the writer's fields."""

    @property
    def rows(self) -> int:
        """Return the number of rows so far."""
        ...

    @property
    def bytes_written(self) -> int:
        """Return about how large the file would be if it was closed now."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Return about how many bytes of rows wait in memory."""
        ...

    def flush(self) -> None:
        """Write out what waits, if the format can: what is held afterwards stays until the file is closed."""
        ...

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        ...

    def close(self) -> WrittenFile:
        """Finish the file."""
        ...

    def abort(self) -> None:
        """Give up: close and delete the file."""
        ...


class DataFormat(Protocol):
    """One file format."""

    @property
    def name(self) -> str:
        """Return the name, which is also the file suffix."""
        ...

    def open_reader(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None
    ) -> FileReader:
        """Open a data file to read `fields`, named as in the file's own schema.

        Args:
            file_io: where the file is.
            path: its path.
            fields: columns to read, with the types wanted.
            file_size: its size by the manifest; told in the error if the file turns out to be damaged.
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
            file_io: where to write.
            path: the file's path.
            fields: the physical columns in order; ids go into the file.
            stats_modes: what to collect for each field; none at all if not given.
            compression: value of `file.compression`.
            options: the table's options; `file.compression.zstd-level`, `file.block-size` and those that begin with
                the format's name are obeyed.
        """
        ...

    def check_values(self, name: str, column: pa.ChunkedArray) -> None:
        """Refuse values that some reader of such files would find missing or changed; most formats have none.

        Args:
            name: the column, for the message.
            column: its values.

        Raises:
            ArgumentError: there is such a value.
        """
        ...

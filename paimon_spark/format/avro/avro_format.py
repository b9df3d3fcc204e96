"""Avro data files (docs/spec/storage.md, section 12.3).

Avro is row-oriented, so it is the only format that is read and written row by row, and the slowest. Dates and times are
read as the stored integers: the logical types are removed from the schema before it is passed to the Avro library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import IO, Any, Self, cast

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import PaimonError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.avro.container import MALFORMED, AvroContainer
from paimon_spark.format.avro.values import avro_schema, column, records
from paimon_spark.format.base import DEFAULT_BATCH_ROWS, FileReader, FileWriter, WrittenFile, rows_within
from paimon_spark.format.column_stats import StatsCollector
from paimon_spark.format.read_errors import damaged, data_file_errors
from paimon_spark.format.schema_conform import empty_columns
from paimon_spark.format.write_options import codec_of, compression_level
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.types import DataField

_CODECS = {"zstd": "zstandard", "none": "null", "gzip": "deflate", "bzip2": "bzip2"}
_RATIO = 0.3
_UNPACKED = 1 / _RATIO
_MAX_BLOCK = 512 << 20
"""A block has about 64 kB and one more row, which may be large."""
_OBJECT_BYTES = 16 << 20
_HIDDEN = ("date", "time-", "timestamp-", "local-timestamp-")


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """The format `avro`."""

    @property
    def name(self) -> str:
        """Return the name, which is also the file suffix."""
        return "avro"

    def open_reader(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None
    ) -> FileReader:
        """Open a data file to read `fields`."""
        return AvroReader(file_io, path, fields, file_size)

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
        """Open a new data file."""
        codec = codec_of(self.name, compression, _CODECS)
        stats = StatsCollector(fields, stats_modes)
        return AvroWriter(file_io, path, fields, stats, codec, compression_level(options or {}))

    def check_values(self, name: str, column: pa.ChunkedArray) -> None:
        """Accept all values: Avro can store every value of its supported types."""
        del name, column


class AvroReader:
    """A reader of one Avro file. The container does not record row counts and offsets, so the file is one row group."""

    def __init__(self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._file_size = file_size
        with data_file_errors(path):
            data = file_io.read(path)
        self._size = len(data)
        try:
            self._file = AvroContainer(data, max_block=_MAX_BLOCK)
            self._schema = _record_of(self._file.schema)
            self._columns = tuple(f["name"] for f in self._schema["fields"])
        except MALFORMED as e:
            raise damaged(path, e, file_size, self._size) from e

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the column names of the file."""
        return self._columns

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return self._file.row_count

    @property
    def num_row_groups(self) -> int:
        """Return 1."""
        return 1

    @property
    def row_group_rows(self) -> tuple[int, ...]:
        """Return the number of rows of the file."""
        return (self.row_count,)

    def select_row_groups(self, expression: pc.Expression | None) -> list[int]:
        """Return the one row group: Avro has no statistics."""
        del expression
        return [0]

    def has_match(self, row_group: int, expression: pc.Expression, columns: Sequence[str]) -> bool:
        """Return True: nothing is known before all columns are read."""
        del row_group, expression, columns
        return True

    def batches(
        self, batch_rows: int = DEFAULT_BATCH_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order."""
        if row_groups is None or 0 in row_groups:
            yield from self._read(self._fields, batch_rows)

    def chunks(self, row_group: int, chunk_bytes: int, *, streamed: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file, decoded block by block regardless of `streamed`."""
        del row_group
        packed = self._size * _UNPACKED / max(1, self.row_count)
        yield from self._read(self._fields, rows_within(chunk_bytes, packed))

    def close(self) -> None:
        """Close the file."""
        self._file.blocks = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, fields: Sequence[DataField], batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(fields)
        try:
            stream = self._file.stream(_hide(self._file.schema))
            rows = iter(cast("Iterable[dict[str, Any]]", fastavro.reader(stream)))
            while chunk := list(islice(rows, batch_rows)):
                if not fields:
                    yield empty_columns(len(chunk))
                    continue
                arrays = [column([r.get(f.name) for r in chunk], f.type) for f in fields]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (pa.ArrowException, *MALFORMED) as e:
            raise damaged(self._path, e, self._file_size, self._size) from e


class AvroWriter:
    """A writer of one Avro file."""

    def __init__(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], stats: StatsCollector, codec: str, level: int
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        self._stats = stats
        self._codec = codec
        self._level = level if codec == "zstandard" else None
        self._avro = fastavro.parse_schema(avro_schema(fields))
        self._waiting: list[pa.Table] = []
        self._raw_bytes = 0
        self._rows = 0

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Return an estimate: the file is encoded when it is closed."""
        return int(self._raw_bytes * _RATIO)

    @property
    def buffered_bytes(self) -> int:
        """Return the size of all rows written so far."""
        return self._raw_bytes

    def flush(self) -> None:
        """Do nothing: the file is encoded when it is closed."""

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        if table.schema != self._schema:
            table = table.select(self._schema.names).cast(self._schema)
        self._stats.update(table)
        self._waiting.append(table)
        self._raw_bytes += table.nbytes
        self._rows += table.num_rows

    def close(self) -> WrittenFile:
        """Write and close the file."""
        rows = (r for t in self._emptied() for b in _pieces(t) for r in records(b, self._fields))
        with self._file_io.open_output(self._path) as out:
            sink = cast("IO[bytes]", _Sink(out))
            fastavro.writer(sink, self._avro, rows, codec=self._codec, codec_compression_level=self._level)
            size = int(out.tell())
        return WrittenFile(size, self._rows, self._stats.result())

    def _emptied(self) -> Iterator[pa.Table]:
        """Yield the buffered tables, releasing each."""
        self._waiting.reverse()
        while self._waiting:
            yield self._waiting.pop()

    def abort(self) -> None:
        """Discard the rows, and delete the file if closing it has failed."""
        self._waiting.clear()
        with suppress(OSError, PaimonError):
            self._file_io.delete(self._path)


class _Sink:
    """The output stream for the Avro library; it does not look like a file that can be appended to."""

    def __init__(self, out: pa.NativeFile) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        self._out.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is closed."""

    def seekable(self) -> bool:
        return False


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches small enough to convert to Python objects."""
    rows = min(DEFAULT_BATCH_ROWS, max(1, _OBJECT_BYTES * table.num_rows // max(1, table.nbytes)))
    return iter(table.to_batches(rows))


def _record_of(schema: Any) -> dict[str, Any]:
    """Return the record schema; old Java files wrap it in a union with null."""
    if isinstance(schema, list):
        schema = next((s for s in schema if s != "null"), None)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its rows have no columns")
    return schema


def _hide(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_hide(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    hidden = str(schema.get("logicalType", "")).startswith(_HIDDEN)
    return {k: _hide(v) if k != "default" else v for k, v in schema.items() if not (hidden and k == "logicalType")}

"""Avro data files (docs/spec/storage.md, section 12.3).

Rows are encoded and decoded column by column, many at once. Only files of few blocks, and those with types that Paimon
does not write, are decoded by the Avro library, record by record. Dates and times are then read as the stored integers:
the logical types are removed from the schema before it is passed to the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Self, cast

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import ArgumentError, ErrorKind, PaimonError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.avro.container import MALFORMED, AvroContainer, FileWindow
from paimon_spark.format.avro.decoder import decode_blocks
from paimon_spark.format.avro.encoder import encode_rows
from paimon_spark.format.avro.output import ContainerOutput
from paimon_spark.format.avro.schema import avro_schema
from paimon_spark.format.avro.values import column
from paimon_spark.format.base import DEFAULT_BATCH_ROWS, FileReader, FileWriter, WrittenFile, rows_within
from paimon_spark.format.column_stats import StatsCollector
from paimon_spark.format.read_errors import damaged, data_file_errors
from paimon_spark.format.schema_conform import empty_columns
from paimon_spark.format.texts import is_valid
from paimon_spark.format.write_options import codec_of, compression_level
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.types import DataField

_CODECS = {"zstd": "zstandard", "none": "null", "gzip": "deflate", "bzip2": "bzip2"}
_RATIO = 0.3
_UNPACKED = 1 / _RATIO
_MAX_BLOCK = 512 << 20
"""A block has about 64 kB and one more row, which may be large."""
_ENCODED_BYTES = 16 << 20
_DECODED_BYTES = 8 << 20
_STREAMED_BYTES = 3 << 20
"""The same where many files are read at once."""
IN_MEMORY = 8 << 20
_FEWEST_BLOCKS = 12
"""Fewer blocks are decoded faster one record at a time."""
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
        """Reject texts that are not valid UTF-8, which readers of Avro cannot decode.

        Raises:
            ArgumentError: the column has such a text.
        """
        if not is_valid(column):
            raise ArgumentError(
                f"Column '{name}' has a text that is not valid UTF-8, which Avro cannot store.",
                hint="Store it in a column of type BINARY, or in a table with 'file.format' = 'parquet'.",
                kind=ErrorKind.TYPE_MISMATCH,
            )


class AvroReader:
    """A reader of one Avro file. The container does not record row counts and offsets, so the file is one row group.

    A file larger than `in_memory` is read piece by piece, twice: first to count its rows.
    """

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        file_size: int | None,
        *,
        in_memory: int = IN_MEMORY,
    ) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._file_size = file_size
        self._by_column = True
        self._source: pa.NativeFile | None = None
        with data_file_errors(path):
            content = self._content(file_io, in_memory)
        self._size = len(content)
        try:
            with self._errors():
                self._file = AvroContainer(content, max_block=_MAX_BLOCK)
                self._schema = _record_of(self._file.schema)
        except BaseException:
            self._close_source()
            raise

    def _content(self, file_io: FileIO, in_memory: int) -> bytes | FileWindow:
        if self._file_size is None or self._file_size <= in_memory:
            return file_io.read(self._path)
        self._source = file_io.open_input(self._path)
        return FileWindow(self._source)

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
            yield from self._read(batch_rows, _DECODED_BYTES)

    def chunks(
        self, row_groups: Sequence[int], chunk_bytes: int, *, streamed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file, decoded some blocks at a time, fewer with `streamed`."""
        if 0 not in row_groups:
            return
        packed = self._size * _UNPACKED / max(1, self.row_count)
        most = _STREAMED_BYTES if streamed else _DECODED_BYTES
        yield from self._read(rows_within(chunk_bytes, packed), min(chunk_bytes, most))

    def close(self) -> None:
        """Close the file."""
        self._file.blocks = ()
        self._close_source()

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of a malformed file; those of the store pass through."""
        try:
            yield
        except (pa.ArrowException, *MALFORMED) as e:
            if isinstance(e, OSError) and e.errno is not None:
                raise
            raise damaged(self._path, e, self._file_size, self._size) from e

    def _read(self, batch_rows: int, decoded_bytes: int) -> Iterator[pa.RecordBatch]:
        with self._errors():
            for blocks in _groups(self._file.unpacked(), decoded_bytes):
                yield from self._rows(blocks, batch_rows)

    def _rows(self, blocks: list[tuple[int, bytes]], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some blocks, which are removed from the list once they are decoded."""
        if not self._fields:
            yield empty_columns(sum(count for count, _ in blocks))
            return
        rows = None
        if len(blocks) >= _FEWEST_BLOCKS and self._by_column:
            rows = decode_blocks(blocks, self._schema, self._file.named, self._fields)
            self._by_column = rows is not None
        if rows is None:
            yield from self._records(blocks, batch_rows)
            return
        blocks.clear()
        for start in range(0, rows.num_rows, batch_rows):
            yield rows.slice(start, batch_rows)

    def _records(self, blocks: Sequence[tuple[int, bytes]], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some blocks, decoded one by one."""
        stream = self._file.stream(_hide(self._file.schema), blocks)
        rows = iter(cast("Iterable[dict[str, Any]]", fastavro.reader(stream)))
        while (batch := self._batch(islice(rows, batch_rows))).num_rows:
            yield batch

    def _batch(self, rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
        records = list(rows)
        arrays = [column([r.get(f.name) for r in records], f.type) for f in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(self._fields))


class AvroWriter:
    """A writer of one Avro file; rows are buffered until they fill a block."""

    def __init__(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], stats: StatsCollector, codec: str, level: int
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        self._stats = stats
        schema = avro_schema(fields)
        fastavro.parse_schema(schema)  # refuses names that Avro does not have
        self._sink = file_io.open_output(path)
        self._rows = 0
        try:
            self._out = ContainerOutput(self._sink, schema, codec, level)
        except BaseException:
            self.abort()
            raise

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Return the size of the finished blocks plus an estimate for the rows that wait for theirs."""
        return int(self._sink.tell() + self._out.waiting_bytes * _RATIO)

    @property
    def buffered_bytes(self) -> int:
        """Return the size of the rows that wait for their block."""
        return self._out.waiting_bytes

    def flush(self) -> None:
        """Write the buffered rows as a block."""
        self._out.end_block()

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        if table.schema != self._schema:
            table = table.select(self._schema.names).cast(self._schema)
        self._stats.update(table)
        for piece in _pieces(table):
            self._out.write(*encode_rows(piece, self._fields))
        self._rows += table.num_rows

    def close(self) -> WrittenFile:
        """Write the last block and close the file."""
        self._out.end_block()
        size = int(self._sink.tell())
        self._sink.close()
        return WrittenFile(size, self._rows, self._stats.result())

    def abort(self) -> None:
        """Close and delete the file."""
        with suppress(pa.ArrowException, OSError):
            self._sink.close()
        with suppress(OSError, PaimonError):
            self._file_io.delete(self._path)


def _groups(blocks: Iterable[tuple[int, bytes]], most_bytes: int) -> Iterator[list[tuple[int, bytes]]]:
    """Yield consecutive blocks of a bounded size together, at least one."""
    group: list[tuple[int, bytes]] = []
    held = 0
    for count, data in blocks:
        if group and held + len(data) > most_bytes:
            yield group
            group, held = [], 0
        group.append((count, data))
        held += len(data)
    if group:
        yield group


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of a bounded size."""
    rows = min(DEFAULT_BATCH_ROWS, max(1, _ENCODED_BYTES * table.num_rows // max(1, table.nbytes)))
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

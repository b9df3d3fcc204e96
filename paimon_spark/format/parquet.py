"""Parquet data files (docs/spec/storage.md, section 12.1).

The writer uses only features that Java releases back to 0.9 can read: version 1 pages, PLAIN and dictionary encodings,
integers for small decimals. Dictionaries are built only for columns with few distinct values in a sample: a failed
attempt costs more CPU than the rest of the write. Floating point columns have no statistics in the file: Arrow excludes
NaN from them, and readers that order NaN above all numbers would skip row groups that contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.format.arrow_types import ARROW_RELEASE, optional_members, to_arrow_schema
from paimon_spark.format.base import (
    DEFAULT_BATCH_ROWS,
    LEAST_CHUNK_ROWS,
    FileWriter,
    WrittenFile,
    rows_within,
)
from paimon_spark.format.column_stats import LONG_VALUE, StatsCollector, has_long_values
from paimon_spark.format.filters import has_match
from paimon_spark.format.int96 import Int96Sink, field_as_bytes, has_nanos, to_int96
from paimon_spark.format.nested_nulls import packed
from paimon_spark.format.parquet_footer import FOOTERS
from paimon_spark.format.read_errors import data_file_errors
from paimon_spark.format.schema_conform import conform_batch, conform_table
from paimon_spark.format.write_options import codec_of, compression_level, flag, memory
from paimon_spark.fs.base import PIECE_BYTES, FileIO
from paimon_spark.spec.kinds import KEY_PREFIX, SEQUENCE_NUMBER
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

MOST_GROUP_BYTES = 32 << 20
_LEAST_GROUP_BYTES = 1 << 20
_LEAST_REMOTE_GROUP_BYTES = 4 << 20
_COLUMN_BYTES = 128 << 10
_REMOTE_COLUMN_BYTES = 384 << 10
"""Small row groups let readers skip most of a file that is sorted by the filter's column. Each column of each of them
costs a few hundred bytes of the footer, and on an object store a request."""
PAGE_BYTES = 1 << 20
_LEAST_PIECE = 16 << 10
_WORTH_THREADS = 256 << 10
"""Passing columns to a thread pool takes as long as decoding this many bytes; with one thread, half as long as
decoding everything."""
_LONG_ON_AVERAGE = 16 << 10
_SAMPLE_PIECES = 4
_SAMPLE_ROWS = 4096
_FEW_TEXTS = 0.25
_FEW_NUMBERS = 0.1
_SURELY_MORE = 1.5
_FIRST_RATIO = 0.35
_ARROW_WITH_TIMES = 23
_ARROW_WITH_HIDDEN_VALUES = 25
"""The first release of pyarrow that writes null lists of a length."""
_LEVELS = {"ZSTD"}


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """The format `parquet`.

    Attributes:
        group_rows: the most rows of a row group that is written.
        arrow_release: the major release of pyarrow that writes.
    """

    group_rows: int = 500_000
    arrow_release: int = ARROW_RELEASE

    @property
    def name(self) -> str:
        """Return the name, which is also the file suffix."""
        return "parquet"

    def open_reader(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None
    ) -> ParquetReader:
        """Open a data file to read `fields`."""
        return ParquetReader(file_io, path, fields, file_size)

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
        remote = file_io.preferred_read_bytes > PIECE_BYTES
        settings = _Settings.of(self, _group_bytes(fields, remote=remote), fields, compression, options or {})
        return ParquetWriter(file_io, path, fields, StatsCollector(fields, stats_modes), settings)

    def check_values(self, name: str, column: pa.ChunkedArray) -> None:
        """Accept all values: Parquet can store every value of its supported types."""
        del name, column


class ParquetReader:
    """A reader of one Parquet file."""

    def __init__(self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None) -> None:
        self._path = path
        self._preferred_read_bytes = file_io.preferred_read_bytes
        self._fields = tuple(fields)
        self._file_size = file_size
        self._actual_size: int | None = None
        self._row_bytes = 0.0
        with data_file_errors(path):
            self._source = file_io.open_input(path)
        try:
            self._actual_size = self._source.size()
            with self._errors():
                self._footer = FOOTERS.read(self._source, path)
                self._metadata = self._footer.metadata
                self._columns = tuple(self._footer.schema.names)
        except BaseException:
            self._source.close()
            raise

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return int(self._metadata.num_rows)

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""
        return int(self._metadata.num_row_groups)

    @property
    def row_group_rows(self) -> tuple[int, ...]:
        """Return the number of rows of each row group."""
        return tuple(self._metadata.row_group(i).num_rows for i in range(self.num_row_groups))

    def select_row_groups(self, expression: pc.Expression | None) -> list[int]:
        """Return the row groups that may contain a row for which `expression` is true.

        Statistics of floating point columns exclude NaN, so an expression on such a column selects all row groups.
        """
        if expression is None:
            return list(range(self.num_row_groups))
        return self._footer.row_groups(self._source, expression)

    def has_match(self, row_group: int, expression: pc.Expression, columns: Sequence[str]) -> bool:
        """Return whether `expression` is true for a row of a row group; only its `columns` are decoded."""
        fields = [f for f in self._fields if f.name in columns]
        return has_match(self._batches(self._file, DEFAULT_BATCH_ROWS, [row_group], fields), expression)

    def stored_bytes(self, row_groups: Sequence[int]) -> int:
        """Return the size in the file of the columns to read of some row groups."""
        wanted = {f.name for f in self._fields}
        total = 0
        for group in map(self._metadata.row_group, row_groups):
            columns = map(group.column, range(group.num_columns))
            total += sum(c.total_compressed_size for c in columns if c.path_in_schema.partition(".")[0] in wanted)
        return total

    def batches(
        self, batch_rows: int = DEFAULT_BATCH_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some or all row groups in file order."""
        groups = list(range(self.num_row_groups)) if row_groups is None else list(row_groups)
        yield from self._batches(self._file, batch_rows, groups)

    def chunks(
        self, row_groups: Sequence[int], chunk_bytes: int, *, streamed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some row groups in batches of about `chunk_bytes` in memory, which may span row groups."""
        width, reliable = self._expected_width(row_groups)
        # Reading a column chunk of long values ahead doubles their memory.
        file = self._streamed_file(chunk_bytes) if streamed or width >= LONG_VALUE else self._file
        rows = (
            rows_within(chunk_bytes, max(self._row_bytes, width)) if reliable or self._row_bytes else LEAST_CHUNK_ROWS
        )
        for batch in self._batches(file, rows, row_groups):
            self._row_bytes = max(self._row_bytes, batch.nbytes / max(1, batch.num_rows))
            wanted = rows_within(chunk_bytes, max(self._row_bytes, width))
            if wanted != rows:
                rows = wanted
                file.reader.set_batch_size(rows)  # takes effect with the next batch of this stream
            yield batch

    def _expected_width(self, row_groups: Sequence[int]) -> tuple[float, bool]:
        """Return the expected size in memory of the widest rows of some row groups, and whether it is reliable.

        It is computed from the metadata. It is not reliable for dictionary-encoded and nested columns: a long
        dictionary value may take only a few bits per row.
        """
        fixed, others = 0.0, []
        for f in to_arrow_schema(self._fields):
            try:
                fixed += f.type.bit_width / 8
            except ValueError:  # no fixed width
                if f.name in self._columns:
                    others.append(f.name)
        if not others:
            return fixed, True
        found = [_stored_width(self._metadata.row_group(i), others) for i in row_groups]
        return fixed + max((width for width, _ in found), default=0.0), all(reliable for _, reliable in found)

    def _batches(
        self, file: pq.ParquetFile, batch_rows: int, groups: Sequence[int], some: Sequence[DataField] | None = None
    ) -> Iterator[pa.RecordBatch]:
        fields = self._fields if some is None else some
        names = self._present(fields)
        stored = sum(self._metadata.row_group(g).total_byte_size for g in groups)
        parallel = pa.cpu_count() > 1 and stored > _WORTH_THREADS
        with self._errors():
            if names:
                left = sum(self._metadata.row_group(g).num_rows for g in groups)
                stream = file.iter_batches(batch_rows, row_groups=groups, columns=names, use_threads=parallel)
                for batch in stream:
                    left -= batch.num_rows
                    if not left:
                        stream.close()  # releases the last pages, which may be as large as the batch
                    yield conform_batch(batch, fields)
                return
            for group in groups:
                left = self._metadata.row_group(group).num_rows
                while left > 0:
                    yield conform_table(_rows_only(min(left, batch_rows)), fields).to_batches()[0]
                    left -= batch_rows

    def _streamed_file(self, chunk_bytes: int) -> pq.ParquetFile:
        """Reopen the file without read-ahead, so that column chunks are read piece by piece.

        On a local disk, the buffers of all columns together take at most one chunk; on an object store, larger buffers
        save requests.
        """
        share = max(_LEAST_PIECE, chunk_bytes // max(1, len(self._fields)))
        piece = self._preferred_read_bytes
        return pq.ParquetFile(
            self._source,
            metadata=self._metadata,
            buffer_size=piece if piece > PIECE_BYTES else min(piece, share),
            pre_buffer=False,
        )

    @cached_property
    def _file(self) -> pq.ParquetFile:
        """The file for reads of whole row groups, opened by the first one."""
        with self._errors():
            return pq.ParquetFile(self._source, metadata=self._metadata)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _present(self, fields: Sequence[DataField]) -> list[str]:
        return [f.name for f in fields if f.name in self._columns]

    def _errors(self) -> Any:
        return data_file_errors(self._path, self._file_size, self._actual_size)


def _stored_width(group: pq.RowGroupMetaData, columns: Sequence[str]) -> tuple[float, bool]:
    """Return the stored, uncompressed size of `columns` per row, and whether they all have plain values."""
    size, plain = 0, 0
    for column in map(group.column, range(group.num_columns)):
        path = column.path_in_schema
        if path.partition(".")[0] in columns:
            size += column.total_uncompressed_size
            plain += path in columns and not column.has_dictionary_page
    return size / max(1, group.num_rows), plain == len(columns)


@dataclass(frozen=True, slots=True)
class _Settings:
    """How a file is written, by the format and by the options of the table."""

    file_format: ParquetFormat
    codec: str
    level: int | None
    group_bytes: int
    page_bytes: int
    dictionary: bool
    delta_columns: tuple[str, ...]

    @staticmethod
    def of(
        file_format: ParquetFormat,
        group_bytes: int,
        fields: Sequence[DataField],
        compression: str,
        options: Mapping[str, str],
    ) -> _Settings:
        codec = codec_of("parquet", compression, {})
        delta = flag(options.get("parquet.delta-encoding", "false"))
        return _Settings(
            file_format=file_format,
            codec=codec,
            level=compression_level(options) if codec in _LEVELS else None,
            group_bytes=memory(options.get("parquet.block.size", options.get("file.block-size")), group_bytes),
            page_bytes=memory(options.get("parquet.page.size"), PAGE_BYTES),
            dictionary=flag(options.get("parquet.enable.dictionary", "true")),
            delta_columns=tuple(f.name for f in fields if _takes_delta(f)) if delta else (),
        )


def _group_bytes(fields: Sequence[DataField], *, remote: bool) -> int:
    """Return the default size of row groups in memory."""
    leaves = sum(len(_leaves(f.name, f.type)) for f in to_arrow_schema(fields))
    least, column = (_LEAST_REMOTE_GROUP_BYTES, _REMOTE_COLUMN_BYTES) if remote else (_LEAST_GROUP_BYTES, _COLUMN_BYTES)
    return min(max(leaves * column, least), MOST_GROUP_BYTES)


class ParquetWriter:
    """A writer of one Parquet file; rows are buffered until they fill a row group."""

    def __init__(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], stats: StatsCollector, settings: _Settings
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._schema = pa.schema(map(optional_members, to_arrow_schema(fields)))
        self._stats = stats
        self._settings = settings
        self._sink = file_io.open_output(path)
        leaves = [t for f in self._schema for _, t in _leaves(f.name, f.type)]
        nanos = [i for i, t in enumerate(leaves) if has_nanos(t)]
        self._int96 = Int96Sink(self._sink, nanos) if nanos else None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._raw_bytes = 0
        self._rows = 0

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Return the size of the finished row groups plus an estimate for buffered rows."""
        done = int(self._sink.tell())
        ratio = done / self._raw_bytes if self._raw_bytes else _FIRST_RATIO
        return done + int(self._waiting_bytes * ratio)

    @property
    def buffered_bytes(self) -> int:
        """Return the size of the rows buffered for the next row group."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._flush()

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        if table.schema != self._schema:
            table = table.select(self._schema.names).cast(self._schema)
        start, width = 0, max(1.0, table.nbytes / max(1, table.num_rows))
        most_rows, most_bytes = self._settings.file_format.group_rows, self._settings.group_bytes
        while start < table.num_rows:
            room = int((most_bytes - self._waiting_bytes) / width) + 1
            part = table.slice(start, min(room, most_rows - self._waiting_rows))
            start += part.num_rows
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            self._waiting_bytes += part.nbytes
            self._rows += part.num_rows
            if self._waiting_rows >= most_rows or self._waiting_bytes >= most_bytes:
                self._flush()

    def close(self) -> WrittenFile:
        """Finish and close the file."""
        self._flush()
        writer = self._writer or self._open(self._schema.empty_table())
        if self._int96 is None:
            writer.close()
        else:
            self._int96.end()
            writer.close()
            self._int96.finish()
        size = int(self._sink.tell())
        self._sink.close()
        return WrittenFile(size, self._rows, self._stats.result())

    def abort(self) -> None:
        """Close and delete the file."""
        self._waiting.clear()
        with suppress(pa.ArrowException, OSError):
            if self._writer is not None:
                self._writer.close()
        with suppress(pa.ArrowException, OSError):
            self._sink.close()
        with suppress(OSError, PaimonError):
            self._file_io.delete(self._path)

    def _flush(self) -> None:
        if not self._waiting_rows:
            return
        group = pa.concat_tables(self._waiting)
        self._waiting.clear()
        self._stats.update(group)
        if self._writer is None:
            self._writer = self._open(group)
        stored = group if self._int96 is None else _stored(group)
        if self._settings.file_format.arrow_release < _ARROW_WITH_HIDDEN_VALUES:
            stored = packed(stored)
        _give_back(group)
        self._writer.write_table(stored, row_group_size=group.num_rows)
        self._raw_bytes += self._waiting_bytes
        self._waiting_rows = 0
        self._waiting_bytes = 0

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        s = self._settings
        delta = dict.fromkeys(s.delta_columns, "DELTA_BINARY_PACKED")
        long = {f.name for f, c in zip(first.schema, first.columns, strict=True) if _is_long(c)}
        columns = dictionary_columns(first.drop_columns(list(long))) if s.dictionary else []
        leaves = [leaf for f in self._schema if f.name not in long for leaf in _leaves(f.name, f.type)]
        return pq.ParquetWriter(
            self._sink if self._int96 is None else pa.PythonFile(self._int96, mode="w"),
            pa.schema([field_as_bytes(f) for f in self._schema]),
            compression=s.codec,
            compression_level=s.level,
            use_dictionary=[c for c in columns if c not in delta] if s.dictionary else False,
            column_encoding=delta or None,
            write_statistics=[path for path, t in leaves if _has_order(t)],
            data_page_version="1.0",
            data_page_size=s.page_bytes,
            store_decimal_as_integer=True,
            store_schema=False,
            **_time_settings(self._schema, s.file_format.arrow_release),
        )


def _time_settings(schema: pa.Schema, arrow_release: int) -> dict[str, bool]:
    """Return the writer's arguments that mark time-of-day columns as UTC, as in Paimon's files.

    Raises:
        UnsupportedError: there are TIME columns, and this pyarrow cannot mark them.
    """
    if not any(pa.types.is_time(t) for f in schema for _, t in _leaves(f.name, f.type)):
        return {}
    if arrow_release < _ARROW_WITH_TIMES:
        raise UnsupportedError(
            f"pyarrow {pa.__version__} cannot write columns of type TIME to Parquet as Paimon reads them.",
            hint=f"Upgrade to pyarrow {_ARROW_WITH_TIMES} or later.",
        )
    return {"write_time_adjusted_to_utc": True}


def dictionary_columns(table: pa.Table) -> list[str]:
    """Return the paths of leaf columns for which a dictionary pays off, based on a sample of top-level columns."""
    rows = table.num_rows
    step = max(rows // _SAMPLE_PIECES, _SAMPLE_ROWS)
    starts = range(0, rows, step) if rows else range(0)
    out: list[str] = []
    for f, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(f.type):
            out += [path for path, _ in _leaves(f.name, f.type)]
        elif not pa.types.is_boolean(f.type):
            sample = pa.chunked_array([c for s in starts for c in column.slice(s, _SAMPLE_ROWS).chunks], f.type)
            if _few_values(sample):
                out.append(f.name)
    return out


def _few_values(sample: pa.ChunkedArray) -> bool:
    """Return whether a dictionary pays off. If a part of the sample shows that it does not, the rest is not hashed."""
    count = len(sample) - sample.null_count
    if not count:
        return True
    text = pa.types.is_string(sample.type) or pa.types.is_binary(sample.type)
    most = count * (_FEW_TEXTS if text else _FEW_NUMBERS)
    parts = (sample.slice(0, int(most * _SURELY_MORE) + 1), sample)
    return all(pc.count_distinct(part).as_py() <= most for part in parts)


def _leaves(path: str, t: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the path and type of each leaf column below `path`."""
    if pa.types.is_list(t):
        return _leaves(f"{path}.list.element", t.value_type)
    if pa.types.is_map(t):
        return _leaves(f"{path}.key_value.key", t.key_type) + _leaves(f"{path}.key_value.value", t.item_type)
    if pa.types.is_struct(t):
        return [leaf for f in t for leaf in _leaves(f"{path}.{f.name}", f.type)]
    return [(path, t)]


def _has_order(t: pa.DataType) -> bool:
    return not pa.types.is_floating(t) and not has_nanos(t)


def _stored(table: pa.Table) -> pa.Table:
    """Return a table with INT96 bytes in place of nanosecond timestamps."""
    for i, f in enumerate(table.schema):
        if has_nanos(f.type):
            as_stored = field_as_bytes(f)
            chunks = [to_int96(c) for c in table.column(i).chunks]
            table = table.set_column(i, as_stored, pa.chunked_array(chunks, as_stored.type))
    return table


def _takes_delta(f: DataField) -> bool:
    integer = isinstance(f.type, AtomicType) and f.type.root in (TypeRoot.INT, TypeRoot.BIGINT)
    return integer and (f.name == SEQUENCE_NUMBER or f.name.startswith(KEY_PREFIX))


def _rows_only(rows: int) -> pa.Table:
    return pa.table({"": pa.array(np.zeros(rows, np.int8))})


def _is_long(column: pa.ChunkedArray) -> bool:
    """Return whether a column gets no statistics and no dictionary, because these copy each long value several times.

    A column with only a few long values does not qualify: filters need its statistics.
    """
    return has_long_values(column) and column.nbytes >= _LONG_ON_AVERAGE * len(column)


def _give_back(rows: pa.Table) -> None:
    """Release freed memory to the system before long values are copied again."""
    if rows.nbytes >= LONG_VALUE * max(1, rows.num_rows):
        pa.default_memory_pool().release_unused()

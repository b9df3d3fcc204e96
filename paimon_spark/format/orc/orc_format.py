"""ORC data files (docs/spec/storage.md, section 12.2).

The padding of CHAR columns in Java files is removed. TIME is an int. A timestamp with local time zone is read as the
stored instant, which is what a writer in UTC stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.format.arrow_types import ORC_FIELD_ID, optional_members, to_arrow_schema
from paimon_spark.format.base import DEFAULT_BATCH_ROWS, FileWriter, WrittenFile, rows_within
from paimon_spark.format.column_stats import StatsCollector
from paimon_spark.format.filters import has_match
from paimon_spark.format.orc.layout import Tail
from paimon_spark.format.orc.output import check_last_second, open_output
from paimon_spark.format.orc.statistics import Statistics
from paimon_spark.format.orc.stripe_ranges import matching_stripes
from paimon_spark.format.orc.timestamps import TimestampFile, has_timestamps
from paimon_spark.format.read_errors import data_file_errors
from paimon_spark.format.schema_conform import conform_batch, empty_columns
from paimon_spark.format.write_options import codec_of, memory
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.types import DataField

STRIPE_BYTES = 8 << 20
"""The library holds a stripe in memory until it is full, several times for a moment."""
_RATIO = 0.35
_UNPACKED = 1 / _RATIO
_AHEAD = 3
"""Batches are so many times smaller than chunks, because pyarrow decodes a few ahead."""
WHOLE_BYTES = 8 << 20
_HEADER_BYTES = 3
_CODECS = {"none": "UNCOMPRESSED", "gzip": "ZLIB"}


@dataclass(frozen=True, slots=True)
class OrcFormat:
    """The format `orc`."""

    @property
    def name(self) -> str:
        """Return the name, which is also the file suffix."""
        return "orc"

    def open_reader(
        self, file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None
    ) -> OrcReader:
        """Open a data file to read `fields`."""
        return OrcReader(file_io, path, fields, file_size)

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
        given = options or {}
        stripe = memory(given.get("orc.stripe.size", given.get("file.block-size")), STRIPE_BYTES)
        codec = codec_of(self.name, compression, _CODECS)
        return OrcWriter(file_io, path, fields, StatsCollector(fields, stats_modes), codec, stripe)

    def check_values(self, name: str, column: pa.ChunkedArray) -> None:
        """Reject fractions of a millisecond in the last second before 1970, which Java readers misread."""
        check_last_second(name, column)


class OrcReader:
    """A reader of one ORC file; its stripes are the row groups.

    Stripes are decoded batch by batch, unless the file has a compression that only pyarrow knows. Stripes whose rows
    take at most `whole_bytes` of memory are decoded as a whole, which is faster.
    """

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        file_size: int | None,
        *,
        whole_bytes: int = WHOLE_BYTES,
    ) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._file_size = file_size
        self._whole_bytes = whole_bytes
        self._actual_size: int | None = None
        with data_file_errors(path):
            self._source = file_io.open_input(path)
        try:
            self._actual_size = self._source.size()
            with self._errors():
                self._file = orc.ORCFile(self._source)
                self._columns = frozenset(self._file.schema.names)
                self._tail = _tail(self._source)
                self._check_rows()
        except BaseException:
            self._source.close()
            raise
        self._stripe_rows: tuple[int, ...] | None = None
        self._row_bytes: float | None = None

    def _check_rows(self) -> None:
        rows = self.row_count if self._tail is None else sum(s.rows for s in self._tail.stripes)
        if rows != self.row_count:
            raise ValueError(f"its stripes have {rows} rows, its footer records {self.row_count}")

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return int(self._file.nrows)

    @property
    def num_row_groups(self) -> int:
        """Return the number of stripes."""
        return int(self._file.nstripes)

    @property
    def row_group_rows(self) -> tuple[int, ...]:
        """Return the number of rows of each stripe."""
        if self._stripe_rows is None:
            with self._errors():
                self._stripe_rows = self._count_rows()
        return self._stripe_rows

    def _count_rows(self) -> tuple[int, ...]:
        if self._tail is not None:
            return tuple(s.rows for s in self._tail.stripes)
        first = self._file.schema.names[:1]
        return tuple(self._file.read_stripe(i, columns=first).num_rows for i in range(self.num_row_groups))

    def select_row_groups(self, expression: pc.Expression | None) -> list[int]:
        """Return the stripes that may contain a row for which `expression` is true, by their statistics."""
        if expression is None or self._tail is None:
            return list(range(self.num_row_groups))
        with self._errors():
            return matching_stripes(Statistics(self._tail, self._source), self._fields, expression)

    def has_match(self, row_group: int, expression: pc.Expression, columns: Sequence[str]) -> bool:
        """Return whether `expression` is true for a row of a stripe; only its `columns` are decoded."""
        fields = [f for f in self._fields if f.name in columns]
        return has_match(self._rows([row_group], DEFAULT_BATCH_ROWS, fields), expression)

    def stored_bytes(self, row_groups: Sequence[int]) -> int:
        """Return the size in the file of some stripes, with all columns."""
        if self._tail is None:
            return self._actual_size or 0
        return sum(self._tail.stripes[i].length for i in row_groups)

    def batches(
        self, batch_rows: int = DEFAULT_BATCH_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some or all stripes in file order."""
        stripes = range(self.num_row_groups) if row_groups is None else row_groups
        yield from self._rows(stripes, batch_rows, self._fields)

    def _rows(self, stripes: Sequence[int], batch_rows: int, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        with self._errors():
            left = sum(self.row_group_rows[i] for i in stripes)
            for part in self._decoded(stripes, batch_rows, fields):
                left -= part.num_rows
                rows = conform_batch(part, fields, trim=True)
                for start in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(start, batch_rows)
            if left:
                raise ValueError("its stripes have more or fewer rows than its footer records")

    def chunks(
        self, row_groups: Sequence[int], chunk_bytes: int, *, streamed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some stripes, decoded batch by batch regardless of `streamed`."""
        del streamed
        with self._errors():
            width = self._width
        yield from self.batches(rows_within(chunk_bytes // _AHEAD, width), row_groups)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decoded(
        self, stripes: Sequence[int], batch_rows: int, fields: Sequence[DataField]
    ) -> Iterator[pa.RecordBatch]:
        """Yield those of some columns that the file has, of small stripes as a whole."""
        present = [f for f in fields if f.name in self._columns]
        if not present:
            return (empty_columns(self.row_group_rows[i]) for i in stripes)
        rows = max((self.row_group_rows[i] for i in stripes), default=0)
        most = None if self._tail is None or rows * self._width <= self._whole_bytes else batch_rows
        if any(has_timestamps(f.type) for f in present):
            return TimestampFile(self._source, self._tail).batches(stripes, present, most)
        names = [f.name for f in present]
        if self._tail is None:
            return (self._file.read_stripe(i, columns=names) for i in stripes)
        return self._tail.decoded(self._source, stripes, names, most)

    @property
    def _width(self) -> float:
        """The estimated size of a row in memory: by the statistics of its columns, else by the size of the file."""
        if self._row_bytes is None:
            self._row_bytes = self._estimated_width()
        return self._row_bytes

    def _estimated_width(self) -> float:
        fixed = {f.name: _fixed_bytes(f.type) for f in to_arrow_schema(self._fields)}
        known: Mapping[str, int] = {}
        if self._tail is not None and None in fixed.values():
            known = Statistics(self._tail, self._source).bytes_of_values()
        rows = max(1, self.row_count)
        width = 0.0
        for name, size in fixed.items():
            if size is None and name in known:
                size = known[name] / rows
            if size is None:
                return (self._actual_size or 0) * _UNPACKED / rows
            width += size
        return width

    def _errors(self) -> Any:
        return data_file_errors(self._path, self._file_size, self._actual_size)


def _tail(source: pa.NativeFile) -> Tail | None:
    """Return the tail of a file, or None if its compression is not supported here."""
    try:
        return Tail.read(source)
    except UnsupportedError:
        return None


def _fixed_bytes(t: pa.DataType) -> float | None:
    """Return the size of values of a fixed width in memory."""
    try:
        return float(t.bit_width / 8)
    except ValueError:
        return None


class OrcWriter:
    """A writer of one ORC file."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        stats: StatsCollector,
        codec: str,
        stripe_bytes: int,
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._schema = pa.schema(map(optional_members, to_arrow_schema(fields)))
        self._physical = pa.schema([_physical_field(f) for f in self._schema])
        self._stats = stats
        self._out = open_output(file_io.open_output(path), self._physical, codec, stripe_bytes)
        self._rows = 0
        self._raw_bytes = 0
        self._flushed = 0
        self._raw_at_flush = 0

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Return the size of the finished stripes plus an estimate for the open one."""
        done = self._out.tell()
        held = self.buffered_bytes
        ratio = done / self._raw_at_flush if self._raw_at_flush else _RATIO
        return done + int(held * ratio)

    @property
    def buffered_bytes(self) -> int:
        """Return the uncompressed size of the rows in the open stripe."""
        done = self._out.tell()
        if done > max(self._flushed, _HEADER_BYTES):
            self._flushed, self._raw_at_flush = done, self._raw_bytes
        return self._raw_bytes - self._raw_at_flush

    def flush(self) -> None:
        """Do nothing: the library closes a stripe when it is full."""

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        if table.schema != self._schema:
            table = table.select(self._schema.names).cast(self._schema)
        self._stats.update(table)
        self._rows += table.num_rows
        self._raw_bytes += table.nbytes
        self._out.write(table.cast(self._physical))

    def close(self) -> WrittenFile:
        """Finish and close the file."""
        size = self._out.finish(self._physical.empty_table())
        return WrittenFile(size, self._rows, self._stats.result())

    def abort(self) -> None:
        """Close and delete the file."""
        self._out.abort()
        with suppress(OSError, PaimonError):
            self._file_io.delete(self._path)


def _physical_field(f: pa.Field) -> pa.Field:
    """Return the field as stored in ORC: TIME as int32, the field id in the attribute that Paimon reads."""
    given = f.metadata or {}
    metadata = {ORC_FIELD_ID: given[ORC_FIELD_ID]} if ORC_FIELD_ID in given else None
    return pa.field(f.name, _physical_type(f.type), f.nullable, metadata)


def _physical_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_time(t):
        return pa.int32()
    if pa.types.is_list(t):
        return pa.list_(_physical_field(t.value_field))
    if pa.types.is_map(t):
        return pa.map_(_physical_field(t.key_field), _physical_field(t.item_field))
    if pa.types.is_struct(t):
        return pa.struct([_physical_field(f) for f in t])
    return t

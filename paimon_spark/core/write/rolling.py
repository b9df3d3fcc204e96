"""Rolling file writer: rows in, files of about the target size and their metadata out."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import row_at
from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.merge.key_groups import retracts
from paimon_spark.core.metadata.row_ranges import blob_columns
from paimon_spark.core.metadata.row_tracking import sequence_bounds, tracks_rows
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.table import Table
from paimon_spark.core.write.blob_files import BlobFileWriter
from paimon_spark.errors import ArgumentError
from paimon_spark.format.base import FileWriter, WrittenFile
from paimon_spark.format.file_index.writer import FileIndexWriter
from paimon_spark.format.registry import for_name
from paimon_spark.fs.copying import link_within
from paimon_spark.spec.file_indexes import INDEX_SUFFIX, index_specs
from paimon_spark.spec.identifier import shown
from paimon_spark.spec.kinds import KEY_FIELD_ID_START, KEY_PREFIX, SEQUENCE_NUMBER, FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, SimpleStats
from paimon_spark.spec.paths import file_in
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.stats import ColumnStats, StatsMode
from paimon_spark.spec.types import DataField, not_null

_SLICE_BYTES = 4 << 20
_MIN_SLICE = 1024
_MAX_SLICE = 65536
_SMALL_GROUPS = {"file.block-size": "16 mb"}
"""A changelog is mostly written beside data files: a writer holds a row group in memory."""
_KEY_STATS = StatsMode.parse("truncate(128)")


class RollingWriter:
    """Writes the data files of one bucket at one level, or its `changelog` files.

    Rows of a primary key table arrive in key order with their system columns; those of an append table in arrival
    order, with their tracking columns if `tracked`.
    """

    def __init__(
        self,
        table: Table,
        partition: bytes,
        bucket: int,
        *,
        level: int,
        source: FileSource,
        first_sequence: int = 0,
        tracked: bool = False,
        changelog: bool = False,
    ) -> None:
        self._table = table
        self._changelog = changelog
        self._tracked = tracked
        self._level = level
        self._source = source
        self._next_sequence = first_sequence
        self._keys = table.key_fields
        options = table.options
        self._format = options.file_format_of(level, changelog=changelog)
        self._compression = options.file_compression_of(level, changelog=changelog)
        self._fields, self._modes = _physical(table, level, tracked=tracked, changelog=changelog)
        self._indexes = () if changelog or bucket < 0 else index_specs(options.values)
        self._index_threshold = options.file_index_in_manifest_threshold
        self._target = options.target_file_size(primary_key=table.is_primary_key_table)
        self._most_rows = options.target_file_row_num if source is FileSource.APPEND and not changelog else None
        self._directory = table.paths.bucket_dir(partition, bucket)
        blobs = () if changelog else blob_columns(table)
        self._blobs = {name: BlobFileWriter(table, self._directory, name, created_now) for name in blobs}
        self._open: _OpenFile | None = None
        self._done: list[DataFileMeta] = []

    @classmethod
    def of_columns(cls, table: Table, partition: bytes, bucket: int, columns: Collection[str]) -> Self:
        """Return a writer of some columns, other than BLOBs, of rows of an append table: of a single file."""
        writer = cls(table, partition, bucket, level=0, source=FileSource.APPEND)
        kept = [(f, m) for f, m in zip(writer._fields, writer._modes, strict=True) if f.name in columns]
        writer._fields, writer._modes = tuple(f for f, _ in kept), tuple(m for _, m in kept)
        writer._target, writer._most_rows, writer._blobs = sys.maxsize, None, {}
        return writer

    @classmethod
    def of_whole_rows(cls, table: Table, partition: bytes, bucket: int) -> Self:
        """Return a writer of new rows of an append table: of a single file, and of one for each BLOB column."""
        writer = cls(table, partition, bucket, level=0, source=FileSource.APPEND)
        writer._target, writer._most_rows = sys.maxsize, None
        for blobs in writer._blobs.values():
            blobs.target = sys.maxsize
        return writer

    def write(self, rows: pa.Table) -> None:
        """Write rows, rolling over to a new file when the current one is full."""
        step = self._slice_rows(rows)
        at = 0
        while at < rows.num_rows:
            current = self._open or self._begin()
            n = step if self._most_rows is None else min(step, self._most_rows - current.writer.rows)
            current.add(rows.slice(at, n), self._fields)
            for name, blobs in self._blobs.items():
                blobs.write(rows.column(name).slice(at, n))
            at += n
            full = self._most_rows is not None and current.writer.rows >= self._most_rows
            if full or current.writer.bytes_written >= self._target:
                self._finish()

    @property
    def buffered_bytes(self) -> int:
        """Return the approximate bytes of rows that the open file buffers."""
        return self._open.writer.buffered_bytes if self._open is not None else 0

    @property
    def is_open(self) -> bool:
        """Return whether a file is open."""
        return self._open is not None

    def flush(self) -> None:
        """Write out buffered rows; if the format still buffers rows, close the file."""
        if self._open is not None:
            self._open.writer.flush()
        if self.buffered_bytes:
            self._finish()

    def roll(self) -> None:
        """Close the open file: rows that follow may have smaller keys."""
        self._finish()

    def close(self) -> list[DataFileMeta]:
        """Close the last file; return the metadata of all files."""
        self._finish()
        return self._done

    def link(self, other: RollingWriter, file: DataFileMeta) -> bool:
        """Add the closed file of another writer of the bucket under a name of its own, without writing its rows again.

        Returns:
            False if this writer would write the rows differently, or the store has no hard links: no file is added.
        """
        if other._written_as() != self._written_as() or other._indexes or other._blobs:
            return False
        name = self._new_name()
        old, new = file_in(self._directory, file.file_name), file_in(self._directory, name)
        if not link_within(self._table.file_io, old, new):
            return False
        self._done.append(replace(file, file_name=name))
        return True

    def _written_as(self) -> tuple[object, ...]:
        """Return what the bytes and the metadata of a file depend on besides its rows."""
        return self._format, self._compression, self._fields, self._modes, self._level, self._source

    def abort(self) -> None:
        """Delete all written files."""
        if self._open is not None:
            self._open.writer.abort()
            self._open = None
        for blobs in self._blobs.values():
            blobs.abort()
        names = (name for f in self._done for name in (f.file_name, *f.extra_files))
        delete_best_effort(self._table.file_io, (file_in(self._directory, name) for name in names))
        self._done = []

    def _slice_rows(self, rows: pa.Table) -> int:
        width = max(1, rows.nbytes // max(1, rows.num_rows))
        return min(_MAX_SLICE, max(_MIN_SLICE, _SLICE_BYTES // width))

    def _begin(self) -> _OpenFile:
        options, name = self._table.options, self._new_name()
        try:
            writer = for_name(self._format).open_writer(
                self._table.file_io,
                file_in(self._directory, name),
                self._fields,
                stats_modes=self._modes,
                compression=self._compression,
                options={**_SMALL_GROUPS, **options.values} if self._changelog else options.values,
            )
        except OSError as e:
            raise self._too_long() if e.errno == errno.ENAMETOOLONG else e from e
        index = FileIndexWriter(self._indexes, self._stored) if self._indexes else None
        self._open = _OpenFile(name, writer, self._keys, tracked=self._tracked, index=index)
        return self._open

    def _new_name(self) -> str:
        paths = self._table.paths
        new_name = paths.new_changelog_file if self._changelog else paths.new_data_file
        return new_name(self._format, self._compression)

    def _too_long(self) -> ArgumentError:
        partition = self._directory.removeprefix(self._table.path).strip("/")
        return ArgumentError(
            f"The store cannot create the directory of the partition {shown(partition)}: its name of "
            f"{len(partition.encode())} bytes is too long.",
            hint="Partition by a column with shorter values.",
        )

    def _finish(self) -> None:
        if self._open is None:
            return
        opened = self._open
        written = opened.writer.close()
        self._open = None
        self._done.append(self._keyed(opened, written) if self._keys else self._appended(opened, written))
        if opened.index is not None:
            self._done[-1] = self._indexed(self._done[-1], opened.index.finish())
        for blobs in self._blobs.values():
            self._done += blobs.roll()

    def _indexed(self, file: DataFileMeta, index: bytes) -> DataFileMeta:
        """Store the indexes of a closed file: in its metadata if they are small, else in a file beside it."""
        if not index:
            return file
        if len(index) <= self._index_threshold:
            return replace(file, embedded_index=index)
        name = file.file_name + INDEX_SUFFIX
        self._table.file_io.write(file_in(self._directory, name), index)
        return replace(file, extra_files=(name,))

    def _keyed(self, opened: _OpenFile, written: WrittenFile) -> DataFileMeta:
        keys = len(self._keys)
        types = self._table.key_types
        return DataFileMeta(
            file_name=opened.name,
            file_size=written.size,
            row_count=written.rows,
            min_key=encode_row(opened.first_key, types),
            max_key=encode_row(opened.last_key, types),
            key_stats=_stats(self._fields[:keys], written.stats[:keys]),
            value_stats=_stats(self._table.schema.fields, written.stats[keys + len(SYSTEM_FIELDS) :]),
            min_sequence_number=opened.first_sequence,
            max_sequence_number=opened.last_sequence,
            schema_id=self._table.schema.id,
            level=self._level,
            creation_time=created_now(),
            delete_row_count=opened.deletes,
            file_source=self._source,
        )

    def _appended(self, opened: _OpenFile, written: WrittenFile) -> DataFileMeta:
        first, last = self._sequences(opened, written.rows)
        fields = self._stored
        partial = len(fields) < len(self._table.schema.fields)
        names = tuple(f.name for f in self._fields) if self._tracked or partial else None
        return DataFileMeta(
            file_name=opened.name,
            file_size=written.size,
            row_count=written.rows,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=_stats(fields, written.stats[: len(fields)]),
            value_stats_cols=tuple(f.name for f in fields) if self._tracked else None,
            write_cols=names,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=self._table.schema.id,
            level=self._level,
            creation_time=created_now(),
            delete_row_count=0,
            file_source=self._source,
        )

    @property
    def _stored(self) -> Sequence[DataField]:
        """Return the columns of the table in a file."""
        own = {f.name for f in self._fields}
        return [f for f in self._table.schema.fields if f.name in own]

    def _sequences(self, opened: _OpenFile, rows: int) -> tuple[int, int]:
        """Return the lowest and highest sequence number of a file of an append table."""
        if self._tracked:
            return sequence_bounds(pa.chunked_array(opened.numbers, pa.int64()))
        if tracks_rows(self._table):
            return 0, 0
        first = self._next_sequence
        self._next_sequence += rows
        return first, first + rows - 1


class _OpenFile:
    """The open file and the state of its metadata."""

    def __init__(
        self,
        name: str,
        writer: FileWriter,
        keys: Sequence[DataField],
        *,
        tracked: bool = False,
        index: FileIndexWriter | None = None,
    ) -> None:
        self._tracked = tracked
        self.index = index
        self.numbers: list[pa.Array] = []
        """Samples of the sequence numbers of tracked rows: minimum, maximum and, if any, a null of each slice."""
        self.name = name
        self.writer = writer
        self._keys = keys
        self.first_key: tuple[object, ...] = ()
        self.last_key: tuple[object, ...] = ()
        self.first_sequence = 0
        self.last_sequence = 0
        self.deletes = 0

    def add(self, rows: pa.Table, fields: Sequence[DataField]) -> None:
        """Write rows and update keys, sequence numbers and retract counts."""
        if self._keys:
            bounds = pc.min_max(rows.column(SEQUENCE_NUMBER)).as_py()
            if not self.writer.rows:
                self.first_key = row_at(rows, self._keys, 0)
                self.first_sequence, self.last_sequence = bounds["min"], bounds["max"]
            self.last_key = row_at(rows, self._keys, rows.num_rows - 1)
            self.first_sequence = min(self.first_sequence, bounds["min"])
            self.last_sequence = max(self.last_sequence, bounds["max"])
            self.deletes += int(retracts(rows).sum())
        if self._tracked:
            numbers = rows.column(SEQUENCE_NUMBER)
            ends = pc.min_max(numbers).as_py()
            self.numbers.append(pa.array([*ends.values(), *([None] if numbers.null_count else [])], pa.int64()))
        if self.index is not None:
            self.index.add(rows)
        columns = [rows.column(f.name.removeprefix(KEY_PREFIX)) for f in fields]
        self.writer.write(pa.Table.from_arrays(columns, names=[f.name for f in fields]))


def _physical(
    table: Table, level: int, *, tracked: bool, changelog: bool
) -> tuple[tuple[DataField, ...], tuple[StatsMode, ...]]:
    """Return the columns of a data file in order, and the statistics mode of each."""
    modes = table.options.stats_modes(table.schema.field_names, level, changelog=changelog)
    blobs = () if changelog else blob_columns(table)
    if blobs:
        stored = [(f, m) for f, m in zip(table.schema.fields, modes, strict=True) if f.name not in blobs]
        return tuple(f for f, _ in stored), tuple(m for _, m in stored)
    if tracked:
        return (*table.schema.fields, *TRACKING_FIELDS), (*modes, *(StatsMode.parse("none"),) * len(TRACKING_FIELDS))
    if not table.is_primary_key_table:
        return table.schema.fields, modes
    keys = tuple(DataField(f.id + KEY_FIELD_ID_START, KEY_PREFIX + f.name, not_null(f.type)) for f in table.key_fields)
    system = (StatsMode.parse("none"),) * len(SYSTEM_FIELDS)
    return (*keys, *SYSTEM_FIELDS, *table.schema.fields), ((_KEY_STATS,) * len(keys) + system + tuple(modes))


def _stats(fields: Sequence[DataField], stats: Sequence[ColumnStats]) -> SimpleStats:
    types = [f.type for f in fields]
    return SimpleStats(
        encode_row([s.min for s in stats], types),
        encode_row([s.max for s in stats], types),
        tuple(s.null_count for s in stats),
    )


def wall_clock_millis(epoch_millis: int) -> int:
    """Return the local wall-clock time as if it were UTC, which is how creation times are stored."""
    return epoch_millis + time.localtime(epoch_millis / 1000).tm_gmtoff * 1000


def epoch_millis(wall_clock: int) -> int:
    """Return the time of a stored creation time, which is a local wall-clock time."""
    moment = datetime.fromtimestamp(wall_clock // 1000, UTC).replace(tzinfo=None)
    return int(moment.timestamp()) * 1000 + wall_clock % 1000


def created_now() -> int:
    """Return the present time as the creation times of files are stored."""
    return wall_clock_millis(time.time_ns() // 1_000_000)

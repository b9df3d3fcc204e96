"""Writing: batches of rows into data files of their buckets (semantics, sections 1, 9 and 10).

One writer serves one task: rows of any partitions and buckets come in, are split without a loop over rows, and wait in
memory until the budget is used up (primary-key tables: sorted and merged into level 0; append tables: streamed).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.buckets import BucketLimits, HashIndex
from paimon_spark.core.intake import IntakeRules, Rows, group_codes, partition_codes, take_in
from paimon_spark.core.key_hash import bucket_numbers, hash_rows, values_of
from paimon_spark.core.merge.keys import one_chunk
from paimon_spark.core.merge.rules import merge_order
from paimon_spark.core.merge.sort_merge import merge_rows
from paimon_spark.core.messages import CommitMessage
from paimon_spark.core.rolling import RollingWriter
from paimon_spark.core.stored import delete_leftovers, read_needed, store_errors
from paimon_spark.core.table import Table
from paimon_spark.core.values import row_at
from paimon_spark.errors import ErrorKind, UnsupportedError, UsageError
from paimon_spark.format import hash_index
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, BucketMode, FileSource
from paimon_spark.spec.manifest import HASH_INDEX, DataFileMeta, IndexFileMeta
from paimon_spark.spec.rows import encode_row

I32 = npt.NDArray[np.int32]
Place = tuple[bytes, int]
"""(partition, bucket)."""
_APPEND_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlanInfo:
    """What the writers of one statement must know of the table's present state; travels as JSON.

    Attributes:
        assigners: into how many classes the key hashes of a dynamic-bucket table are split.
        max_sequences: the highest sequence number in use, by partition and bucket.
        hash_files: names (or external paths) of the hash index files, by partition and bucket.
        foreign_buckets: partitions that are organised with another number of buckets than the table now says.
    """

    assigners: int = 1
    max_sequences: Mapping[bytes, Mapping[int, int]] = field(default_factory=dict)
    hash_files: Mapping[bytes, Mapping[int, str]] = field(default_factory=dict)
    foreign_buckets: Mapping[bytes, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the plan as a compact JSON text."""
        return json.dumps(
            {
                "assigners": self.assigners,
                "max_sequences": [[_text(p), list(m.items())] for p, m in self.max_sequences.items()],
                "hash_files": [[_text(p), list(m.items())] for p, m in self.hash_files.items()],
                "foreign_buckets": [[_text(p), n] for p, n in self.foreign_buckets.items()],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> WritePlanInfo:
        """Parse what `to_json` made."""
        raw = json.loads(text)
        return cls(
            assigners=raw["assigners"],
            max_sequences={b64decode(p): dict(m) for p, m in raw["max_sequences"]},
            hash_files={b64decode(p): dict(m) for p, m in raw["hash_files"]},
            foreign_buckets={b64decode(p): n for p, n in raw["foreign_buckets"]},
        )


def _text(partition: bytes) -> str:
    return b64encode(partition).decode("ascii")


class TableWriter:
    """Writes rows of one task; use as a context manager, so that files of a failed task are deleted.

    A batch has all columns of the table in order and may carry ``_row_kind_`` (int8), ``_bucket_`` (int32, tables with
    fixed buckets) or ``_hash_`` (int32, dynamic buckets), computed upstream. Nulls become the default value of their
    column, unless `fill_defaults` is off: rows that were in the table before stay what they were.
    """

    def __init__(self, table: Table, plan: WritePlanInfo, *, fill_defaults: bool = True) -> None:
        self._table = table
        self._plan = plan
        self._mode = table.bucket_mode
        if self._mode in (BucketMode.KEY_DYNAMIC, BucketMode.POSTPONE):
            raise UnsupportedError(
                f"Table {table.name} has {self._mode} buckets, which cannot be written.",
                hint="Write it with Apache Paimon, or use a primary key that contains the partition columns.",
            )
        self._rules = IntakeRules.of(table) if fill_defaults else IntakeRules.of(table).without_defaults()
        self._budget = table.options.write_buffer_size
        self._buckets: dict[Place, _PrimaryKeyBucket | _AppendBucket] = {}
        self._indexes: dict[bytes, HashIndex] = {}
        self._paths = table.paths
        self._index_paths: list[str] = []

    @store_errors()
    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows.

        Raises:
            UsageError: a null in a NOT NULL column, a value that does not fit, or a retract for an append table.
        """
        rows = take_in(batch, self._rules)
        if not rows.count:
            return
        codes, firsts = partition_codes(rows.columns, self._table.schema.partition_fields)
        partitions = [self._partition(rows.columns, i) for i in firsts]
        buckets = self._bucket_numbers(rows, codes, partitions)
        order, starts, groups = group_codes(codes, buckets)
        if order is not None:
            rows = rows.take(order)
        width = rows.columns.nbytes // rows.count + 16
        ends = [*starts[1:], rows.count]
        for (code, bucket), start, end in zip(groups, starts, ends, strict=True):
            self._bucket((partitions[code], bucket)).add(rows.slice(start, end - start), width * (end - start))
        self._relieve()

    @store_errors()
    def finish(self) -> list[CommitMessage]:
        """Write what still waits; return one message per bucket."""
        files = {place: writer.finish() for place, writer in self._buckets.items()}
        index_files: dict[Place, tuple[IndexFileMeta, ...]] = {}
        for partition, index in self._indexes.items():
            for bucket, hashes in index.gained():
                index_files[partition, bucket] = (self._write_index(partition, bucket, hashes),)
        return [
            CommitMessage(
                partition=partition,
                bucket=bucket,
                total_buckets=self._table.options.bucket,
                new_files=tuple(files.get((partition, bucket), ())),
                new_index_files=index_files.get((partition, bucket), ()),
            )
            for partition, bucket in sorted({*files, *index_files})
            if files.get((partition, bucket)) or (partition, bucket) in index_files
        ]

    def abort(self) -> None:
        """Delete every file that was written."""
        for writer in self._buckets.values():
            writer.abort()
        delete_leftovers(self._table.file_io, self._index_paths)
        self._buckets, self._index_paths = {}, []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()

    def _partition(self, columns: pa.Table, i: int) -> bytes:
        fields = self._table.schema.partition_fields
        return encode_row(row_at(columns, fields, i), self._table.partition_types)

    def _bucket_numbers(self, rows: Rows, codes: npt.NDArray[np.int64], partitions: list[bytes]) -> I32:
        if self._mode is BucketMode.BUCKET_UNAWARE:
            return np.zeros(rows.count, dtype=np.int32)
        if self._mode is BucketMode.HASH_FIXED:
            return rows.buckets if rows.buckets is not None else fixed_buckets(self._table, rows.columns)
        hashes = rows.hashes if rows.hashes is not None else hash_rows(rows.columns, self._table.key_fields)
        if len(partitions) == 1:
            return self._index(partitions[0]).assign(hashes)
        out = np.empty(rows.count, dtype=np.int32)
        for code, partition in enumerate(partitions):
            mine = np.flatnonzero(codes == code)
            out[mine] = self._index(partition).assign(hashes[mine])
        return out

    def _index(self, partition: bytes) -> HashIndex:
        index = self._indexes.get(partition)
        if index is None:
            names = self._plan.hash_files.get(partition, {})
            known = {bucket: self._read_index(partition, bucket, name) for bucket, name in names.items()}
            options = self._table.options
            limits = BucketLimits(
                target_rows=options.dynamic_bucket_target_row_num,
                max_buckets=options.dynamic_bucket_max_buckets,
                assigners=self._plan.assigners,
            )
            index = self._indexes[partition] = HashIndex(known, limits)
        return index

    def _read_index(self, partition: bytes, bucket: int, name: str) -> I32:
        path = name if "/" in name else self._paths.new_index_file(partition, bucket, name)
        return hash_index.decode(read_needed(self._table.file_io, path, "hash index file"), path)

    def _write_index(self, partition: bytes, bucket: int, hashes: I32) -> IndexFileMeta:
        name = self._paths.new_index_name()
        path = self._paths.new_index_file(partition, bucket, name)
        data = hash_index.encode(hashes)
        self._index_paths.append(path)
        self._table.file_io.write(path, data)
        return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size=len(data), row_count=len(hashes))

    def _bucket(self, place: Place) -> _PrimaryKeyBucket | _AppendBucket:
        writer = self._buckets.get(place)
        if writer is None:
            writer = self._buckets[place] = self._new_bucket(*place)
        return writer

    def _new_bucket(self, partition: bytes, bucket: int) -> _PrimaryKeyBucket | _AppendBucket:
        present = self._plan.foreign_buckets.get(partition)
        if present is not None:
            where = self._table.partition_text(partition) or "the table"
            raise UsageError(
                f"Table {self._table.name} now has bucket = {self._table.options.bucket}, but {where} is still"
                f" organised in {present} buckets.",
                hint="Reorganise it with INSERT OVERWRITE before adding rows.",
                kind=ErrorKind.INVALID_OPTION,
            )
        unaware = self._mode is BucketMode.BUCKET_UNAWARE
        first = 0 if unaware else self._plan.max_sequences.get(partition, {}).get(bucket, -1) + 1
        kind = _PrimaryKeyBucket if self._table.is_primary_key_table else _AppendBucket
        return kind(self._table, partition, bucket, first)

    def _relieve(self) -> None:
        """Write out the buckets that hold most until half of the budget is free; the others let go of their batches."""
        sizes = sorted(((b.held, i, b) for i, b in enumerate(self._buckets.values())), reverse=True)
        held = sum(size for size, _, _ in sizes)
        if held <= self._budget:
            return
        for size, _, writer in sizes:
            if held > self._budget // 2:
                held -= size
                writer.relieve()
            else:
                writer.settle()


def fixed_buckets(table: Table, columns: pa.Table) -> I32:
    """Return the bucket of every row of a table with a fixed number of buckets.

    Raises:
        UnsupportedError: the bucket function is not implemented.
    """
    if table.options.bucket == 1:
        return np.zeros(columns.num_rows, dtype=np.int32)
    function = table.options.bucket_function_type
    fields = table.bucket_key_fields
    if function == "default":
        return bucket_numbers(hash_rows(columns, fields), table.options.bucket)
    if function == "mod":
        values = values_of(one_chunk(columns.column(fields[0].name).fill_null(0))).astype(np.int64)
        return np.mod(values, table.options.bucket).astype(np.int32)
    raise UnsupportedError(
        f"Table {table.name} has 'bucket-function.type' = '{function}', which cannot be written.",
        hint="Write it with Apache Paimon, or use a table with the default bucket function.",
    )


def _own_copy(tables: list[pa.Table]) -> list[pa.Table]:
    """Return the rows in memory of their own: a slice keeps all of its batch alive."""
    if not tables:
        return tables
    rows = pa.concat_tables(tables)
    return [rows.take(pa.array(np.arange(rows.num_rows, dtype=np.int64)))]


class _PrimaryKeyBucket:
    """Rows of one bucket that wait to be sorted and merged into a level-0 file."""

    def __init__(self, table: Table, partition: bytes, bucket: int, first_sequence: int) -> None:
        self._table = table
        self._place = (partition, bucket)
        self._next = first_sequence
        self._order = merge_order(table)
        self._waiting: list[pa.Table] = []
        self._done: list[tuple[RollingWriter, list[DataFileMeta]]] = []
        self.held = 0

    def add(self, rows: Rows, size: int) -> None:
        """Take rows, giving them the next sequence numbers."""
        numbers = np.arange(self._next, self._next + rows.count, dtype=np.int64)
        self._next += rows.count
        table = rows.columns.append_column(SEQUENCE_NUMBER, pa.array(numbers))
        self._waiting.append(table.append_column(VALUE_KIND, pa.array(rows.kinds)))
        self.held += size

    def flush(self) -> None:
        """Sort, merge and write what waits."""
        if not self._waiting:
            return
        waiting, self._waiting, self.held = self._waiting, [], 0
        merged = merge_rows(pa.concat_tables(waiting), self._order)
        del waiting
        writer = RollingWriter(self._table, *self._place, level=0, source=FileSource.APPEND)
        self._done.append((writer, []))
        writer.write(merged)
        self._done[-1] = (writer, writer.close())

    def relieve(self) -> None:
        """Let nothing wait in memory."""
        self.flush()

    def settle(self) -> None:
        """Keep alive only what waits here, not the batches that it is a part of."""
        self._waiting = _own_copy(self._waiting)

    def finish(self) -> list[DataFileMeta]:
        """Write what waits; return all files."""
        self.flush()
        return [f for _, files in self._done for f in files]

    def abort(self) -> None:
        """Delete the files."""
        for writer, _ in self._done:
            writer.abort()
        self._waiting = []


class _AppendBucket:
    """Rows of one bucket of an append table on their way into a file."""

    def __init__(self, table: Table, partition: bytes, bucket: int, first_sequence: int) -> None:
        self._writer = RollingWriter(
            table, partition, bucket, level=0, source=FileSource.APPEND, first_sequence=first_sequence
        )
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    @property
    def held(self) -> int:
        """Return the bytes that wait here and in the open file."""
        return self._waiting_bytes + self._writer.held

    def add(self, rows: Rows, size: int) -> None:
        """Take rows."""
        self._waiting.append(rows.columns)
        self._waiting_bytes += size
        if self._waiting_bytes >= _APPEND_CHUNK:
            self.flush()

    def flush(self) -> None:
        """Hand what waits to the file."""
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._writer.write(pa.concat_tables(waiting).combine_chunks())

    def relieve(self) -> None:
        """Let nothing wait in memory, nor in the file."""
        self.flush()
        self._writer.relieve()

    def settle(self) -> None:
        """Keep alive only what waits here, not the batches that it is a part of."""
        self._waiting = _own_copy(self._waiting)

    def finish(self) -> list[DataFileMeta]:
        """Write what waits; return all files."""
        self.flush()
        return self._writer.close()

    def abort(self) -> None:
        """Delete the files."""
        self._waiting = []
        self._writer.abort()

"""Table writer: batches of rows into data files of their buckets (docs/spec/semantics.md, sections 1, 9 and 10).

One writer serves one task. Rows of any partitions and buckets are split by vectorized operations and buffered until the
memory budget is used up; `merge_tree_writer` describes what happens then.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import row_at
from paimon_spark.core.buckets.bucket_hash import hash_rows
from paimon_spark.core.buckets.fixed_buckets import partition_buckets
from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.messages import MessageCodec
from paimon_spark.core.metadata_io import delete_best_effort, read_needed, translate_io_errors
from paimon_spark.core.spill.space import SpillRules, SpillSpace
from paimon_spark.core.table import Table
from paimon_spark.core.write.append_writer import AppendWriter
from paimon_spark.core.write.dynamic_buckets import BucketLimits, HashIndex
from paimon_spark.core.write.merge_tree_writer import MergeTreeWriter
from paimon_spark.core.write.postpone_writer import PostponeWriter
from paimon_spark.core.write.row_conversion import Rows, WriteRules, group_codes, partition_codes, prepare_batch
from paimon_spark.errors import ErrorKind, UnsupportedError, UsageError
from paimon_spark.format import hash_index
from paimon_spark.format.arrays import I32
from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.kinds import BucketMode, ChangelogProducer
from paimon_spark.spec.manifest import HASH_INDEX, BucketKey, IndexFileMeta
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.rows import encode_row

_PIECES_OF_A_BUFFER = 8
"""A batch is processed in slices of this fraction of the buffer, because each slice is copied when it is split."""
_MOST_FILES = 256
"""Maximum number of buckets of an append table with an open file: a process can open about a thousand files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRestoreState:
    """The state of the table that the writers of one statement need; sent as JSON.

    Attributes:
        assigners: number of classes that the key hashes of a dynamic-bucket table are divided into.
        max_sequences: the highest sequence number in use, by partition and bucket.
        max_sequence: the lower bound of those in all buckets.
        hash_files: names (or external paths) of the hash index files, by partition and bucket.
        rescaled_partitions: partitions whose number of buckets differs from that of the table.
        bucket_counts: number of buckets by partition, in a table with postponed buckets.
        new_buckets: number of buckets of any other partition of such a table.
        waiting: partitions with postponed rows, which must reach their buckets before new rows do.
        postpone_user: the commit user in the names of postponed files; None if rows are written to buckets.
        bucket_rows: rows by partition and bucket, in a table with cross-partition upsert.
        buffer: the bytes that one writer may hold; by default, the option of the table.
        changelog: whether the statement has a changelog: an overwrite has none.
        rewritten: the snapshot whose files are rewritten with the changed rows of a primary key table; None if the rows
            are written with their kinds.
        columns: the columns that a statement changes in rows of a table with data evolution.
        columns_of: the snapshot whose values of these columns the other rows keep; None if the statement changes no
            columns.
    """

    assigners: Int = 1
    max_sequences: Mapping[bytes, Mapping[Int, Long]] = field(default_factory=dict)
    max_sequence: Long = -1
    hash_files: Mapping[bytes, Mapping[Int, str]] = field(default_factory=dict)
    rescaled_partitions: Mapping[bytes, Int] = field(default_factory=dict)
    bucket_counts: Mapping[bytes, Int] = field(default_factory=dict)
    new_buckets: Int = 1
    waiting: tuple[bytes, ...] = ()
    postpone_user: str | None = None
    bucket_rows: Mapping[bytes, Mapping[Int, Long]] = field(default_factory=dict)
    buffer: Long | None = None
    changelog: bool = True
    rewritten: Long | None = None
    columns: tuple[str, ...] = ()
    columns_of: Long | None = None

    def buckets_of(self, partition: bytes) -> int:
        """Return the number of buckets of a partition of a table with postponed buckets."""
        return self.bucket_counts.get(partition, self.new_buckets)

    def max_sequence_of(self, partition: bytes, bucket: int) -> int:
        """Return the highest sequence number in use in a bucket; -1 for none."""
        return max(self.max_sequences.get(partition, {}).get(bucket, -1), self.max_sequence)

    def to_json(self) -> str:
        """Return the plan as a compact JSON text."""
        return _STATE.encode(self)

    @classmethod
    def from_json(cls, text: str) -> WriterRestoreState:
        """Parse the output of `to_json`.

        Raises:
            EngineError: the text is malformed.
        """
        return _STATE.decode(text)


_STATE = MessageCodec[WriterRestoreState](WriterRestoreState, "state of writers")


class AbortableWriter(ABC):
    """A writer of one task; as a context manager, it deletes its files if the task fails."""

    @abstractmethod
    def abort(self) -> None:
        """Delete the written files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()


class TableWriter(AbortableWriter):
    """Writes the rows of one task.

    A batch has all columns of the table in order and may carry `ROW_KIND` (int8), `SHUFFLE_BUCKET` (int32, tables with
    fixed buckets) or `SHUFFLE_HASH` (int32, dynamic buckets), computed upstream. Nulls become the default value of
    their column, unless `fill_defaults` is off: rows that were in the table before keep their nulls.

    Args:
        table: the table.
        plan: the plan of the statement.
        fill_defaults: see above.
        spill_dirs: local directories for sorted rows.
        spill: space for sorted rows of a table with a primary key; by default, one in `spill_dirs` by the options of
            the table.
        tracked: rows come with their ids.
    """

    def __init__(
        self,
        table: Table,
        plan: WriterRestoreState,
        *,
        fill_defaults: bool = True,
        spill_dirs: Sequence[str] = (),
        spill: SpillSpace | None = None,
        tracked: bool = False,
    ) -> None:
        self._table = table
        self._tracked = tracked
        self._plan = plan
        self._mode = table.bucket_mode
        self._writer_id = random.randrange(1 << 31)
        self._rules = WriteRules.of(table) if fill_defaults else WriteRules.of(table).without_defaults()
        key = {f.name for f in table.bucket_key_fields} if self._mode is BucketMode.HASH_FIXED else set()
        self._key_has_defaults = any(f.default_value is not None for f in self._rules.fields if f.name in key)
        if tracked:
            self._rules = replace(self._rules, fields=(*self._rules.fields, *TRACKING_FIELDS))
        budget = table.options.write_buffer_size if plan.buffer is None else plan.buffer
        if spill is None and table.is_primary_key_table:
            rules = SpillRules.of(table.options, budget)
            spill = None if rules is None else SpillSpace(rules, spill_dirs)
        self._budget = budget if spill is None else spill.rules.buffer
        self._spill = spill
        self._buckets: dict[BucketKey, MergeTreeWriter | AppendWriter] = {}
        self._writing: dict[AppendWriter, None] = {}
        """The writers with an open file, the last used one last."""
        self._indexes: dict[bytes, HashIndex] = {}
        self._paths = table.paths
        self._index_paths: list[str] = []

    @translate_io_errors()
    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Write rows.

        Raises:
            UsageError: a null in a NOT NULL column, a value that does not fit, or a retract for an append table.
        """
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        step = max(1, self._budget // _PIECES_OF_A_BUFFER // width)
        for start in range(0, batch.num_rows, step):
            self._write_piece(batch.slice(start, step))

    def _write_piece(self, batch: pa.RecordBatch | pa.Table) -> None:
        rows = prepare_batch(batch, self._rules)
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
            writer = self._bucket(BucketKey(partitions[code], bucket))
            writer.add(rows.slice(start, end - start), width * (end - start))
            self._limit_files(writer)
        self._relieve()

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Write all buffered rows; return one message per bucket."""
        files = {key: writer.finish() for key, writer in self._buckets.items()}
        changelog = {k: w.changelog for k, w in self._buckets.items() if isinstance(w, MergeTreeWriter)}
        self._end_spill()
        index_files: dict[BucketKey, tuple[IndexFileMeta, ...]] = {}
        for partition, index in self._indexes.items():
            for bucket, hashes in index.gained():
                index_files[BucketKey(partition, bucket)] = (self._write_index(partition, bucket, hashes),)
        return [
            CommitMessage(
                partition=key.partition,
                bucket=key.bucket,
                total_buckets=self._total_buckets(key),
                new_files=tuple(files.get(key, ())),
                new_changelog=tuple(changelog.get(key, ())),
                new_index_files=index_files.get(key, ()),
            )
            for key in sorted({*files, *index_files})
            if files.get(key) or changelog.get(key) or key in index_files
        ]

    def _total_buckets(self, key: BucketKey) -> int:
        if self._mode is BucketMode.POSTPONE and key.bucket != POSTPONE_BUCKET:
            return self._plan.buckets_of(key.partition)
        return self._table.options.bucket

    def abort(self) -> None:
        """Delete all written files."""
        for writer in self._buckets.values():
            writer.abort()
        delete_best_effort(self._table.file_io, self._index_paths)
        self._buckets, self._index_paths = {}, []
        self._end_spill()

    def _end_spill(self) -> None:
        if self._spill is not None:
            self._spill.close()

    def _partition(self, columns: pa.Table, i: int) -> bytes:
        fields = self._table.schema.partition_fields
        return encode_row(row_at(columns, fields, i), self._table.partition_types)

    def _bucket_numbers(self, rows: Rows, codes: npt.NDArray[np.int64], partitions: list[bytes]) -> I32:
        if self._mode is BucketMode.BUCKET_UNAWARE:
            return np.zeros(rows.count, dtype=np.int32)
        if self._mode is BucketMode.POSTPONE and self._plan.postpone_user is not None:
            return np.full(rows.count, POSTPONE_BUCKET, dtype=np.int32)
        early = self._key_has_defaults  # the given buckets were computed before nulls became defaults
        if rows.buckets is not None and not early and self._mode is not BucketMode.HASH_DYNAMIC:
            return rows.buckets
        if self._mode in (BucketMode.POSTPONE, BucketMode.HASH_FIXED):
            return partition_buckets(self._table, rows.columns, codes, partitions, self._plan.buckets_of)
        if self._mode is BucketMode.KEY_DYNAMIC:
            raise cross_partition_rows(self._table)
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

    def _bucket(self, place: BucketKey) -> MergeTreeWriter | AppendWriter:
        writer = self._buckets.get(place)
        if writer is None:
            writer = self._buckets[place] = self._new_bucket(*place)
        return writer

    def _new_bucket(self, partition: bytes, bucket: int) -> MergeTreeWriter | AppendWriter:
        user = self._plan.postpone_user
        if user is not None:
            return PostponeWriter(self._table, partition, user, self._writer_id)
        present = self._plan.rescaled_partitions.get(partition)
        if present is not None:
            raise other_buckets(self._table, partition, present)
        if partition in self._plan.waiting:
            raise _postponed_first(self._table, partition)
        unaware = self._mode is BucketMode.BUCKET_UNAWARE
        first = 0 if unaware else self._plan.max_sequence_of(partition, bucket) + 1
        if self._table.is_primary_key_table:
            changelog = self._plan.changelog and self._table.options.changelog_producer is ChangelogProducer.INPUT
            hold = self._budget // 4
            return MergeTreeWriter(self._table, partition, bucket, first, self._spill, hold, changelog=changelog)
        return AppendWriter(self._table, partition, bucket, first, tracked=self._tracked)

    def _relieve(self) -> None:
        """Flush the largest buckets until at most half of the budget is in use; the others copy their buffered rows.

        Sorting needs as much memory again as the sorted rows, so with spilling, only half of the budget is available
        for buffering.
        """
        budget = self._budget if self._spill is None else self._budget // 2
        sizes = sorted(((b.buffered_bytes, i, b) for i, b in enumerate(self._buckets.values())), reverse=True)
        held = sum(size for size, _, _ in sizes)
        if held <= budget:
            return
        for size, _, writer in sizes:
            if held > budget // 2:
                held -= size
                writer.flush()
                self._limit_files(writer)
            else:
                writer.detach()
        pa.default_memory_pool().release_unused()

    def _limit_files(self, writer: MergeTreeWriter | AppendWriter) -> None:
        """Close the file of another bucket if `writer` has an open one and there are too many: the longest unused."""
        if isinstance(writer, AppendWriter) and writer.is_open:
            self._writing.pop(writer, None)
            self._writing[writer] = None
            if len(self._writing) > _MOST_FILES:
                unused = next(iter(self._writing))
                del self._writing[unused]
                unused.roll()


def cross_partition_rows(table: Table) -> UnsupportedError:
    """Return the error for rows of a table with cross-partition upsert that come without the buckets of their keys."""
    return UnsupportedError(
        f"The primary key of table {table.name} does not contain its partition columns, and 'bucket' is -1: rows must "
        "be joined with all keys of the table first.",
        hint="Write them with an INSERT, or by append or upsert of the Python API.",
    )


def check_bucket_number(table: Table, plan: WriterRestoreState) -> None:
    """Raise if the bucket number of an unpartitioned table was changed; checked before a job begins.

    Raises:
        UsageError: the existing rows have another number of buckets than the table option.
    """
    if not table.schema.partition_keys:
        for partition, present in plan.rescaled_partitions.items():
            raise other_buckets(table, partition, present)


def other_buckets(table: Table, partition: bytes, present: int) -> UsageError:
    """Return the error for rows of a partition with another number of buckets than the table option."""
    where = table.partition_text(partition) or "the table"
    return UsageError(
        f"Table {table.name} now has bucket = {table.options.bucket}, but {where} is still organised in {present} "
        "buckets.",
        hint="Reorganise it with INSERT OVERWRITE or CALL sys.rescale before adding rows.",
        kind=ErrorKind.INVALID_OPTION,
    )


def _postponed_first(table: Table, partition: bytes) -> UsageError:
    where = table.partition_text(partition) or "it"
    return UsageError(
        f"Table {table.name} has no 'sequence.field', and {where} has postponed rows. Compacted later, they would "
        "replace the rows that are written to buckets now.",
        hint="Call sys.compact first, or write with 'postpone.batch-write-fixed-bucket' = 'false'.",
    )

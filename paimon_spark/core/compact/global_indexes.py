"""Building of global index files: the values of a column by row id, cut into files of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.global_index.bitmap import bitmap_file
from paimon_spark.format.global_index.btree import btree_file
from paimon_spark.format.global_index.keys import KeyDomain, key_domain
from paimon_spark.format.global_index.sorted_rows import FileSettings, SortedRows
from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.global_indexes import GlobalIndex, GlobalIndexKind
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta
from paimon_spark.spec.types import DataField

_VALUE_BYTES = 32 << 20
"""A file ends with the chunk that makes its values larger: sorting takes some twenty times as much memory."""
_LEAST_BYTES = 8
"""What a value counts at least: it is sorted as a 64-bit number."""
_NULLS_AT_ONCE = 1 << 20
_WRITERS = {GlobalIndexKind.BTREE: btree_file, GlobalIndexKind.BITMAP: bitmap_file}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpan:
    """Consecutive rows of one file: their ids, and the file with their values of the indexed column.

    Without a file, all values are null: the column was added after the rows were written.
    """

    first: Long
    rows: Long
    bucket: Int
    file: DataFileMeta | None

    @property
    def end(self) -> int:
        """Return the id after the last one."""
        return self.first + self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexTask:
    """Spans of one partition whose row ids follow each other."""

    partition: bytes
    spans: tuple[RowSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexWork:
    """The index to build: kind, column, the most rows of a file, and how files are written."""

    kind: str
    column: str
    most_rows: Long
    block_size: Int
    compression: str
    level: Int


@dataclass(slots=True)
class _Pending:
    """The values that the next file has."""

    first: int
    rows: int = 0
    size: int = 0
    chunks: list[pa.Array] = field(default_factory=list)

    def add(self, values: pa.Array) -> None:
        self.chunks.append(values)
        self.rows += len(values)
        self.size += max(values.nbytes, _LEAST_BYTES * len(values))


class GlobalIndexBuilder:
    """Builds the files of an index.

    Args:
        table: the table, at the schema of the statement, with the write token of the job.
        work: the index.
    """

    def __init__(self, table: Table, work: GlobalIndexWork) -> None:
        self._table, self._work = table, work
        self._field: DataField = table.schema.field(work.column)
        domain = key_domain(self._field.type)
        if domain is None:
            raise AssertionError(f"{self._field.type} was checked before")
        self._domain: KeyDomain = domain
        self._settings = FileSettings(block_size=work.block_size, compression=work.compression, level=work.level)
        self._type = to_arrow_type(self._field.type)
        self.written: list[str] = []
        """The paths of the files written."""

    def build(self, task: GlobalIndexTask) -> CommitMessage:
        """Write the index files of a task."""
        files: list[IndexFileMeta] = []
        pending = _Pending(task.spans[0].first)
        for span in task.spans:
            for values in self._values(task.partition, span):
                checkpoint()
                rest = values
                while len(rest):
                    some = rest.slice(0, self._work.most_rows - pending.rows)
                    pending.add(some)
                    rest = rest.slice(len(some))
                    if pending.rows >= self._work.most_rows or pending.size >= _VALUE_BYTES:
                        files.append(self._write(pending))
                        pending = _Pending(pending.first + pending.rows)
        if pending.rows:
            files.append(self._write(pending))
        buckets = self._table.options.bucket
        return CommitMessage(partition=task.partition, bucket=0, total_buckets=buckets, new_index_files=tuple(files))

    def _values(self, partition: bytes, span: RowSpan) -> Iterator[pa.Array]:
        """Yield the values of the rows of a span, in order."""
        if span.file is None:
            for at in range(0, span.rows, _NULLS_AT_ONCE):
                yield pa.nulls(min(_NULLS_AT_ONCE, span.rows - at), self._type)
            return
        at, seen = span.file.first_row_id or 0, 0
        for chunk in BucketFiles(self._table, partition, span.bucket).columns(span.file, [self._field]):
            first, end = max(span.first - at, 0), min(span.end - at, chunk.num_rows)
            at += chunk.num_rows
            if first < end:
                seen += end - first
                column = chunk.column(self._field.name).slice(first, end - first)
                yield from (c.cast(self._type) for c in column.chunks if len(c))
        if seen != span.rows:
            raise CorruptTableError(
                f"The data file {span.file.file_name} of table {self._table.name} has {seen} of {span.rows} rows.",
                hint="Roll back to a snapshot before it was committed.",
            )

    def _write(self, pending: _Pending) -> IndexFileMeta:
        kind = GlobalIndexKind(self._work.kind)
        values = pa.chunked_array(pending.chunks, self._type).combine_chunks()
        values = values if isinstance(values, pa.Array) else values.chunk(0)
        rows = SortedRows.of(values, self._domain)
        data = _WRITERS[kind](rows, self._settings)
        name = self._table.paths.new_global_index_name(kind)
        path = self._table.paths.global_index_file(name)
        self.written.append(path)
        self._table.file_io.write(path, data)
        about = GlobalIndex(
            pending.first, pending.first + pending.rows - 1, self._field.id, (), rows.file_keys.packed()
        )
        return IndexFileMeta(
            index_type=kind,
            file_name=name,
            file_size=len(data),
            row_count=pending.rows,
            global_index=about.packed(),
        )

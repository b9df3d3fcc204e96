"""Compaction of tables with data evolution: the column files of row ranges become one file of all columns.

The file covers the rows of the ranges, which follow each other in row ids. Row ids stay, deleted rows stay marked, and
BLOB and VECTOR files are not rewritten. With `data-evolution.compaction.rewrite-row-ids`, ranges with deleted rows are
rewritten without them, with their BLOB and VECTOR values, and the commit gives the other rows new ids.
(docs/spec/semantics.md, A11)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from pyroaring import BitMap

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.append import AppendOptions, Files
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorWriter
from paimon_spark.core.metadata.row_ranges import RowRange, blob_columns, row_ranges
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import rows_in_vectors
from paimon_spark.core.read.stitched_rows import stitched_rows
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import TRUE

_LEAST_FILES = 2


def pick_row_ranges(
    files: Sequence[DataFileMeta], options: AppendOptions, deleted: Mapping[str, int] | None = None
) -> list[Files]:
    """Return groups of data files to rewrite into one file each.

    A group has whole row ranges that follow each other, and have BLOB and VECTOR files of the same columns. It ends
    when it exceeds the target size, which a single range may do alone, and needs `options.min_file_num` files. One with
    deleted rows that are to be removed has all files of its ranges, however many.

    Args:
        files: the files of a bucket.
        options: thresholds.
        deleted: the number of deleted rows by anchor, if they are to be removed.
    """
    groups: list[list[RowRange]] = []
    weight, full = 0, True
    removed = deleted or {}
    for found in row_ranges(f for f in files if f.first_row_id is not None):
        left = 1 - removed.get(found.anchor.file_name, 0) / max(found.rows, 1)
        own = sum(max(ceil(f.file_size * left), options.open_file_cost) for f in found.data)
        large = own > options.target_file_size
        if full or large or not _follows(found, groups[-1][-1]):
            groups.append([])
            weight = 0
        groups[-1].append(found)
        weight += own
        full = weight > options.target_file_size
    least = max(options.min_file_num, _LEAST_FILES)
    chosen: list[Files] = []
    for group in groups:
        data = tuple(f for found in group for f in found.data)
        if any(found.anchor.file_name in removed for found in group):
            chosen.append(tuple(f for found in group for f in found.files))
        elif len(data) >= least:
            chosen.append(data)
    return chosen


def _follows(found: RowRange, before: RowRange) -> bool:
    return found.first == before.first + before.rows and _dedicated(found) == _dedicated(before)


def _dedicated(found: RowRange) -> set[str]:
    """Return the columns of a range that have files of their own."""
    return {column for f in (*found.blobs, *found.vectors) for column in f.write_cols or ()}


def compact_columns(table: Table, task: CompactTask) -> CommitMessage:
    """Execute one task and return the removed and added files. Nothing is committed."""
    if task.renumber:
        return _without_deleted_rows(table, task)
    ranges = row_ranges(task.files)
    place = (task.partition, task.bucket)
    blobs = blob_columns(table)
    fields = tuple(f for f in table.schema.fields if f.name not in blobs)
    reader = BucketFiles(table, *place)
    writer = RollingWriter.of_columns(table, *place, frozenset(f.name for f in fields))
    vectors = _MovedVectors(table, task)
    try:
        for found in ranges:
            for rows in stitched_rows(reader, found.files, fields, TRUE, ()):
                checkpoint()
                writer.write(rows)
        (file,) = writer.close()
        index_files = vectors.write(file.file_name, ranges)
    except BaseException:
        writer.abort()
        vectors.abort()
        raise
    file = replace(
        file,
        first_row_id=ranges[0].first,
        min_sequence_number=min(f.min_sequence_number for f in task.files),
        max_sequence_number=max(f.max_sequence_number for f in task.files),
    )
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.files,
        compact_after=(file,),
        new_index_files=index_files,
        vectors_seen=vectors.seen,
    )


def _without_deleted_rows(table: Table, task: CompactTask) -> CommitMessage:
    """Rewrite whole rows into one file, and one for each BLOB column; the commit gives them ids."""
    plain = replace(table, options=CoreOptions({**table.options.values, "blob-as-descriptor": "false"}))
    place = (task.partition, task.bucket)
    reader = BucketFiles(plain, *place, rows_in_vectors(table, dict(task.vectors)))
    writer = RollingWriter.of_whole_rows(plain, *place)
    try:
        for rows in stitched_rows(reader, task.files, table.schema.fields, TRUE, ()):
            checkpoint()
            if rows.num_rows:
                writer.write(rows)
        new = writer.close()
    except BaseException:
        writer.abort()
        raise
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.files,
        compact_after=tuple(new),
        vectors_seen=_MovedVectors(table, task).seen,
    )


class _MovedVectors:
    """The deleted rows of a task's ranges, as positions in its new file."""

    def __init__(self, table: Table, task: CompactTask) -> None:
        self._table = table
        self._place = (task.partition, task.bucket)
        self._refs = dict(task.vectors)
        self._stored = StoredVectors(table.file_io)
        self._written: list[str] = []

    @property
    def seen(self) -> tuple[tuple[str, int], ...]:
        """Return the files with deletion vectors, and the fingerprints of these."""
        return tuple((name, self._stored.fingerprint(name, ref)) for name, ref in self._refs.items())

    def write(self, name: str, ranges: Sequence[RowRange]) -> tuple[IndexFileMeta, ...]:
        """Write the deletion vector of the new file, if it has one."""
        deleted = BitMap()
        for found in ranges:
            anchor = found.anchor.file_name
            before = self._stored.bitmap(anchor, self._refs.get(anchor))
            if before is not None:
                deleted |= before.shift(found.first - ranges[0].first)
        if not deleted:
            return ()
        writer = VectorWriter(self._table, *self._place, self._put)
        writer.add(name, deleted)
        return writer.close()

    def abort(self) -> None:
        """Delete the written files."""
        delete_best_effort(self._table.file_io, self._written)

    def _put(self, path: str, data: bytes) -> None:
        self._written.append(path)
        self._table.file_io.write(path, data)

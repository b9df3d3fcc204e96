"""Execution of a compaction task; the result is a commit message.

(docs/spec/semantics.md, sections 3 and 10)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.append import in_order
from paimon_spark.core.compact.cluster_sort import ClusterSorter
from paimon_spark.core.compact.clustering import clusters
from paimon_spark.core.compact.column_files import compact_columns
from paimon_spark.core.compact.keyed import KeyedCompaction, KeyedPreview
from paimon_spark.core.compact.replaced_rows import ReplacedRows
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.levels import sections
from paimon_spark.core.metadata.deletion_vectors import StoredVectors
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import rows_in_vectors
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DataFileMeta


def compact_bucket(table: Table, task: CompactTask) -> CommitMessage:
    """Execute one task and return the removed and added files. Nothing is committed."""
    if evolves(table):
        return compact_columns(table, task)
    if not table.is_primary_key_table:
        return replaced_message(table, task, _rewrite_append(table, task))
    work = KeyedCompaction(table, task)
    try:
        for section in sections(task.files, table.key_types):
            work.add(section)
        work.flush()
        message = replace(_message(task, work.before, work.after), compact_changelog=tuple(work.changelog))
        return _with_vectors(table, task, message, work.replaced) if table.options.deletion_vectors_enabled else message
    except BaseException:
        work.abort()
        raise


def replaced_message(table: Table, task: CompactTask, after: Sequence[DataFileMeta]) -> CommitMessage:
    """Return the message of a task that replaces all of its files, those of an append table, by others."""
    return replace(_message(task, task.files, after), vectors_seen=_seen(table, task))


def _with_vectors(table: Table, task: CompactTask, message: CommitMessage, replaced: ReplacedRows) -> CommitMessage:
    """Return the message with the new deletion vectors, and the vectors of read or marked files that it relies on."""
    changed = {*replaced.files, *(f.file_name for f in task.files)}
    return replace(
        message,
        new_index_files=replaced.write(task.partition, task.bucket, dict(task.vectors)),
        vectors_seen=tuple(seen for seen in _seen(table, task) if seen[0] in changed),
    )


def _message(task: CompactTask, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]) -> CommitMessage:
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=tuple(before),
        compact_after=tuple(after),
    )


def _seen(table: Table, task: CompactTask) -> tuple[tuple[str, int], ...]:
    vectors = StoredVectors(table.file_io)
    return tuple((name, vectors.fingerprint(name, ref)) for name, ref in task.vectors)


def _rewrite_append(table: Table, task: CompactTask) -> list[DataFileMeta]:
    files = in_order(task.files)
    writer = RollingWriter(
        table,
        task.partition,
        task.bucket,
        level=0,
        source=FileSource.COMPACT,
        first_sequence=min(f.min_sequence_number for f in files),
        tracked=tracks_rows(table),
    )
    chunks = _chunks(table, task, files)
    try:
        for rows in ClusterSorter(table).sorted(chunks) if clusters(table) else chunks:
            checkpoint()
            writer.write(rows)
        return [replace(f, level=task.output_level) for f in writer.close()]
    except BaseException:
        writer.abort()
        raise


def _chunks(table: Table, task: CompactTask, files: Iterable[DataFileMeta]) -> Iterator[pa.Table]:
    reader = BucketFiles(table, task.partition, task.bucket, rows_in_vectors(table, dict(task.vectors)))
    fields = (*table.schema.fields, *(TRACKING_FIELDS if tracks_rows(table) else ()))
    for file in files:
        yield from reader.chunks(file, fields)


def preview(table: Table, task: CompactTask) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
    """Return the files that the task would rewrite, and those that it would only upgrade to the output level."""
    if not table.is_primary_key_table:
        return list(task.files), []
    work = KeyedPreview(table, task)
    for section in sections(task.files, table.key_types):
        work.add(section)
    work.flush()
    return work.rewritten, work.before

"""Execution of a compaction unit: upgrade the files that can move as they are, merge and rewrite the rest.

(docs/spec/semantics.md, section 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.append import in_order
from paimon_spark.core.compact.existing_keys import overlapping, without_existing_keys
from paimon_spark.core.levels import SortedRun, sections
from paimon_spark.core.merge.key_groups import drop_retracts
from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorRef
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import rows_in_vectors
from paimon_spark.core.read.split_reader import merged_rows
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.spec.bounds import Int
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DataFileMeta

Section = Sequence[SortedRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Files of one bucket to compact; `drop_deletes` if no older data lies below the output level."""

    partition: bytes
    bucket: Int
    total_buckets: Int
    files: tuple[DataFileMeta, ...]
    output_level: Int = 0
    drop_deletes: bool = False
    force_rewrite: bool = False
    reason: str = ""
    vectors: tuple[tuple[str, VectorRef], ...] = ()
    """Deletion vectors of the files, by file name; only for files that have one."""
    upper: tuple[DataFileMeta, ...] = ()
    """The files above the output level, where rows of keys that they hold are left out."""

    @property
    def bytes_in(self) -> int:
        """Return the total size of the files to compact."""
        return sum(f.file_size for f in self.files)


def compact_bucket(table: Table, task: CompactTask) -> CommitMessage:
    """Execute one task and return the removed and added files. Nothing is committed."""
    if not table.is_primary_key_table:
        return replace(_message(task, task.files, _rewrite_append(table, task)), vectors_seen=_seen(table, task))
    work = _KeyedCompaction(table, task)
    try:
        for section in sections(task.files, table.key_types):
            work.add(section)
        work.flush()
    except BaseException:
        work.abort()
        raise
    return _message(task, work.before, work.after)


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
    reader = BucketFiles(table, task.partition, task.bucket, rows_in_vectors(table, dict(task.vectors)))
    writer = RollingWriter(
        table,
        task.partition,
        task.bucket,
        level=task.output_level,
        source=FileSource.COMPACT,
        first_sequence=min(f.min_sequence_number for f in files),
        tracked=tracks_rows(table),
    )
    fields = (*table.schema.fields, *(TRACKING_FIELDS if tracks_rows(table) else ()))
    try:
        for file in files:
            for rows in reader.chunks(file, fields):
                writer.write(rows)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


class _KeyedCompaction:
    """Processes the sections of a unit in key order; adjacent sections that need rewriting are rewritten together."""

    def __init__(self, table: Table, task: CompactTask) -> None:
        self._table = table
        self._task = task
        self._files = BucketFiles(table, task.partition, task.bucket)
        options = table.options
        self._small = options.target_file_size(primary_key=True) * options.compaction_small_file_ratio
        self._batch: list[Section] = []
        self._writers: list[RollingWriter] = []
        self.before: list[DataFileMeta] = []
        self.after: list[DataFileMeta] = []

    def add(self, section: Section) -> None:
        """Add the next section: rewrite it with its neighbours, or upgrade the large files of a single run."""
        if len(section) > 1:
            self._batch.append(section)
            return
        for file in section[0].files:
            alone = (SortedRun(file.level, (file,)),)
            if file.file_size < self._small:
                self._batch.append(alone)
            else:
                self.flush()
                self._upgrade(file)

    def flush(self) -> None:
        """Rewrite the batch; a batch of a single file is upgraded."""
        batch, self._batch = self._batch, []
        if len(batch) == 1 and len(batch[0]) == 1:
            for file in batch[0][0].files:
                self._upgrade(file)
        elif batch:
            self._rewrite(batch)

    def abort(self) -> None:
        """Delete the written files."""
        for writer in self._writers:
            writer.abort()

    def _upgrade(self, file: DataFileMeta) -> None:
        deletes = self._task.drop_deletes and file.delete_row_count != 0
        known = file.level == 0 and bool(self._upper([file]))
        if deletes or known or self._task.force_rewrite:
            self._rewrite([(SortedRun(file.level, (file,)),)])
        elif file.level != self._task.output_level:
            self.before.append(file)
            self.after.append(file.upgrade(self._task.output_level))

    def _rewrite(self, batch: Sequence[Section]) -> None:
        task = self._task
        writer = RollingWriter(
            self._table, task.partition, task.bucket, level=task.output_level, source=FileSource.COMPACT
        )
        self._writers.append(writer)
        before = [f for section in batch for run in section for f in run.files]
        merged = merged_rows(self._files, batch, self._table.schema.fields)
        if upper := self._upper(before):
            merged = without_existing_keys(merged, before, self._files, upper, self._table.key_fields)
        for rows in merged:
            kept = drop_retracts(rows) if task.drop_deletes else rows
            if kept.num_rows:
                writer.write(kept)
        self.before.extend(before)
        self.after.extend(writer.close())

    def _upper(self, files: Sequence[DataFileMeta]) -> list[SortedRun]:
        return overlapping(files, self._task.upper, self._table.key_types) if self._task.upper else []


def preview(table: Table, task: CompactTask) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
    """Return the files that the task would rewrite, and those that it would only upgrade to the output level."""
    if not table.is_primary_key_table:
        return list(task.files), []
    work = _KeyedPreview(table, task)
    for section in sections(task.files, table.key_types):
        work.add(section)
    work.flush()
    return work.rewritten, work.before


class _KeyedPreview(_KeyedCompaction):
    """The same traversal as a dry run."""

    def __init__(self, table: Table, task: CompactTask) -> None:
        super().__init__(table, task)
        self.rewritten: list[DataFileMeta] = []

    def _rewrite(self, batch: Sequence[Section]) -> None:
        self.rewritten.extend(f for section in batch for run in section for f in run.files)

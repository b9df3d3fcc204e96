"""Execution of a compaction unit of a primary key table: upgrade the files that can move, merge and rewrite the rest.

(docs/spec/semantics.md, sections 3, 6 and 7)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.compact.batch_merge import BatchMerge
from paimon_spark.core.compact.record_expiry import RecordExpiry
from paimon_spark.core.compact.replaced_rows import ReplacedRows
from paimon_spark.core.compact.task import CompactTask, Section
from paimon_spark.core.compact.upper_levels import overlapping
from paimon_spark.core.levels import SortedRun
from paimon_spark.core.merge.config import needs_lookup
from paimon_spark.core.merge.key_groups import drop_retracts
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import rows_in_vectors
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.spec.kinds import FileSource, MergeEngine
from paimon_spark.spec.manifest import DataFileMeta


class Upgrade(Enum):
    """How a file gets to the output level: moved unchanged, moved after it was read, or rewritten."""

    MOVE = 0
    READ = 1
    REWRITE = 2


class KeyedCompaction:
    """Processes the sections of a unit in key order; adjacent sections that need rewriting are rewritten together.

    Attributes:
        before: the files that are replaced or moved.
        after: the files that take their place.
        changelog: the changelog files.
        replaced: the rows of files above the output level that the new rows replace.
    """

    def __init__(self, table: Table, task: CompactTask) -> None:
        self._table = table
        self._task = task
        self._vectors = dict(task.vectors)
        self._expiry = RecordExpiry.of(table, int(time.time()))
        keep = None if self._expiry is None else self._expiry.without_expired
        files = BucketFiles(table, task.partition, task.bucket, rows_in_vectors(table, self._vectors), keep)
        self.replaced = ReplacedRows(table, task.upper)
        self._merge = BatchMerge(files, task, self.replaced, self._expiry)
        options = table.options
        self._small = options.target_file_size(primary_key=True) * options.compaction_small_file_ratio
        self._batch: list[Section] = []
        self._writers: list[RollingWriter] = []
        self.before: list[DataFileMeta] = []
        self.after: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []

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
        self.replaced.abort()

    def _upgrade(self, file: DataFileMeta) -> None:
        how = self._upgrade_of(file)
        batch = [(SortedRun(file.level, (file,)),)]
        if how is Upgrade.REWRITE:
            self._rewrite(batch)
        elif file.level != self._task.output_level:
            if how is Upgrade.READ:
                self._read(batch)
            self.before.append(file)
            self.after.append(file.upgrade(self._task.output_level))

    def _upgrade_of(self, file: DataFileMeta) -> Upgrade:
        task = self._task
        deletes = task.drop_deletes and file.delete_row_count != 0
        deleted = file.level == task.output_level and file.file_name in self._vectors
        expired = self._expiry is not None and self._expiry.may_be_in(file)
        if deletes or deleted or expired or task.force_rewrite:
            return Upgrade.REWRITE
        if file.level == 0 and needs_lookup(self._table):
            return self._upgrade_with_lookup(file)
        return Upgrade.READ if self._merge.is_full_compaction else Upgrade.MOVE

    def _upgrade_with_lookup(self, file: DataFileMeta) -> Upgrade:
        table, level = self._table, self._task.output_level
        options, engine = table.options, table.options.merge_engine
        if options.file_format_of(0) != options.file_format_of(level):
            return Upgrade.REWRITE
        if engine is MergeEngine.FIRST_ROW:
            joined = bool(overlapping([file], self._task.upper, table.key_types))
        else:
            stays = engine is MergeEngine.DEDUPLICATE and not options.sequence_field
            joined = not (stays or self._task.to_top)
        if joined:
            return Upgrade.REWRITE
        reads = self._merge.changelog or options.deletion_vectors_enabled
        return Upgrade.READ if reads else Upgrade.MOVE

    def _rewrite(self, batch: Sequence[Section]) -> None:
        writer = self._writer(changelog=False)
        self._read(batch, writer)
        self.before.extend(f for section in batch for run in section for f in run.files)
        self.after.extend(writer.close())

    def _read(self, batch: Sequence[Section], writer: RollingWriter | None = None) -> None:
        """Merge a batch; write its rows, if there is a writer for them, and its changelog."""
        changelog = self._writer(changelog=True) if self._merge.changelog else None
        for merged in self._merge(batch):
            checkpoint()
            if writer is not None:
                kept = drop_retracts(merged.rows) if self._task.drop_deletes else merged.rows
                if kept.num_rows:
                    writer.write(kept)
            if changelog is not None and merged.changelog is not None and merged.changelog.num_rows:
                changelog.write(merged.changelog)
        if changelog is not None:
            self.changelog.extend(changelog.close())

    def _writer(self, *, changelog: bool) -> RollingWriter:
        task = self._task
        source = FileSource.APPEND if changelog else FileSource.COMPACT
        writer = RollingWriter(
            self._table, task.partition, task.bucket, level=task.output_level, source=source, changelog=changelog
        )
        self._writers.append(writer)
        return writer


class KeyedPreview(KeyedCompaction):
    """The same traversal as a dry run: `before` are the files to move, `rewritten` the others."""

    def __init__(self, table: Table, task: CompactTask) -> None:
        super().__init__(table, task)
        self.rewritten: list[DataFileMeta] = []

    def _rewrite(self, batch: Sequence[Section]) -> None:
        self.rewritten.extend(f for section in batch for run in section for f in run.files)

    def _read(self, batch: Sequence[Section], writer: RollingWriter | None = None) -> None:
        del batch, writer

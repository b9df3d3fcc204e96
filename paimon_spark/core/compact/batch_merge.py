"""The merge of the sections that a compaction rewrites together: plain, or with a lookup in the levels above.

(docs/spec/semantics.md, M1, M20 and section 6)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from paimon_spark.core.changelog.change_rows import ChangeRows
from paimon_spark.core.changelog.full_compaction import FullCompaction
from paimon_spark.core.changelog.lookup import Lookup, Merged
from paimon_spark.core.columns import LEVEL
from paimon_spark.core.compact.record_expiry import RecordExpiry
from paimon_spark.core.compact.replaced_rows import ReplacedRows
from paimon_spark.core.compact.task import CompactTask, Section
from paimon_spark.core.compact.upper_levels import overlapping, range_of, with_replaced, without_existing_keys
from paimon_spark.core.levels import SortedRun, chained, oldest_first
from paimon_spark.core.merge.config import merge_order, needed_fields, needs_lookup
from paimon_spark.core.merge.engines.lookup import level_of
from paimon_spark.core.merge.key_groups import KeyGroups, retracts, single_versions
from paimon_spark.core.merge.multi_pass import RunSource, group_sources, runs_at_once
from paimon_spark.core.merge.sort_merge import MergeOrder
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.row_ordinals import ORDINAL, ordinals_of
from paimon_spark.core.read.split_reader import merged_rows
from paimon_spark.spec.kinds import VALUE_KIND, ChangelogProducer, MergeEngine, RowKind
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.types import DataField

MergeKeys = Callable[[KeyGroups], Merged]


class BatchMerge:
    """Merges batches of sections, as the merge engine and the changelog producer of the table require.

    Args:
        files: the files of the bucket.
        task: the compaction.
        replaced: collects the rows of upper levels that are replaced.
        expiry: the rows that have expired, which `files` leave out.
    """

    def __init__(
        self, files: BucketFiles, task: CompactTask, replaced: ReplacedRows, expiry: RecordExpiry | None = None
    ) -> None:
        self._files = files
        self._upper_files = BucketFiles(files.table, files.partition, files.bucket, files.deleted_rows)
        self._expiry = expiry
        self._table = files.table
        self._task = task
        self._replaced = replaced
        options = files.table.options
        self._marks = options.deletion_vectors_enabled
        producer = options.changelog_producer if task.changelog else ChangelogProducer.NONE
        self.is_full_compaction = producer is ChangelogProducer.FULL_COMPACTION and task.to_top
        self.changelog = self.is_full_compaction or producer is ChangelogProducer.LOOKUP

    def __call__(self, batch: Sequence[Section]) -> Iterator[Merged]:
        """Yield the merged rows of a batch in key order, with the changelog; collect the replaced rows."""
        files = [f for section in batch for run in section for f in run.files]
        if self.is_full_compaction:
            order = merge_order(self._table)
            full = FullCompaction(order.function, self._task.output_level, ChangeRows.of(self._table))
            return self._merge_keys(batch, full, order)
        if not needs_lookup(self._table) or all(f.level != 0 for f in files):
            return map(Merged, merged_rows(self._files, batch, self._table.schema.fields))
        upper = overlapping(files, self._task.upper, self._table.key_types)
        if self._table.options.merge_engine is MergeEngine.FIRST_ROW:
            return self._first_rows(batch, files, upper)
        if not self.changelog and self._newest_wins:
            return self._newest_rows(batch, files, upper)
        return self._looked_up(batch, files, upper)

    @property
    def _newest_wins(self) -> bool:
        """Return whether the values of older rows do not matter to a merge."""
        options = self._table.options
        plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_field
        return plain and not self._table.stored_options.ignore_delete

    def _first_rows(
        self, batch: Sequence[Section], files: Sequence[DataFileMeta], upper: Sequence[SortedRun]
    ) -> Iterator[Merged]:
        metadata = (LEVEL,) if self.changelog else ()
        rows = merged_rows(self._files, batch, self._table.schema.fields, TRUE, metadata)
        if upper:
            rows = without_existing_keys(rows, files, self._files, upper, self._table.key_fields)
        for chunk in rows:
            yield Merged(chunk, _inserts(chunk) if self.changelog else None)

    def _newest_rows(
        self, batch: Sequence[Section], files: Sequence[DataFileMeta], upper: Sequence[SortedRun]
    ) -> Iterator[Merged]:
        rows = merged_rows(self._files, batch, self._table.schema.fields)
        if not upper or not self._marks:
            yield from map(Merged, rows)
            return
        key = self._table.key_fields
        for own, ordinals in with_replaced(rows, files, self._files, upper, self._replaced.ordinals, key):
            self._replaced.add(ordinals)
            if own is not None:
                yield Merged(own)

    def _looked_up(
        self, batch: Sequence[Section], files: Sequence[DataFileMeta], upper: Sequence[SortedRun]
    ) -> Iterator[Merged]:
        order = merge_order(self._table)
        changes = ChangeRows.of(self._table) if self.changelog else None
        expired = None if self._expiry is None else self._expiry.expired
        lookup = Lookup(order.function, self._task.output_level, changes, expired)
        limit = range_of(files, self._table.key_fields)
        return self._merge_keys(batch, lookup, order, upper, limit)

    def _merge_keys(
        self,
        batch: Sequence[Section],
        merge: MergeKeys,
        order: MergeOrder,
        upper: Sequence[SortedRun] = (),
        limit: Predicate = TRUE,
    ) -> Iterator[Merged]:
        """Merge all versions of a key at once; `limit` prunes the rows of the `upper` runs."""
        table, own = self._table, chained(batch)
        order = replace(order, picks=False)  # no version is merged before the others, which would lose levels
        fields = needed_fields(table, order, table.schema.fields)
        above = oldest_first(upper)
        sources = [RunSource(r.size, partial(self._read_upper, r, fields, limit)) for r in above]
        sources += [RunSource(r.size, partial(self._read_own, r, fields)) for r in own]
        for part in group_sources(table, sources, order, runs_at_once(table, [*above, *own], len(fields))):
            groups = part if isinstance(part, KeyGroups) else single_versions(part)
            merged = merge(groups)
            if self._marks and len(merged.replaced):
                self._replaced.add(ordinals_of(groups.rows)[merged.replaced])
            yield merged

    def _read_upper(
        self, run: SortedRun, fields: Sequence[DataField], limit: Predicate, chunk_bytes: int
    ) -> Iterator[pa.Table]:
        if not self._marks:
            return self._upper_files.run(run, fields, limit, (LEVEL,), chunk_bytes)
        return self._replaced.ordinals.read(self._upper_files, run, fields, limit, (LEVEL,), chunk_bytes)

    def _read_own(self, run: SortedRun, fields: Sequence[DataField], chunk_bytes: int) -> Iterator[pa.Table]:
        for rows in self._files.run(run, fields, TRUE, (LEVEL,), chunk_bytes):
            if self._marks:
                yield rows.append_column(ORDINAL, pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows))
            else:
                yield rows


def _inserts(rows: pa.Table) -> pa.Table:
    """Return the new keys among the first rows that were merged, as inserts: those that come from level 0."""
    new = (level_of(rows) == 0) & ~retracts(rows)
    found = rows.filter(pa.array(new))
    kind = found.column_names.index(VALUE_KIND)
    kinds = pa.repeat(pa.scalar(RowKind.INSERT, pa.int8()), found.num_rows)
    return found.set_column(kind, found.schema.field(kind), kinds)

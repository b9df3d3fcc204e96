"""Copy-on-write changes of primary key tables: key ranges with changed rows are rewritten into the top level.

The files of a bucket form sections, whose key ranges do not overlap. All files of a section with a changed row are
merged, the changed rows take the place of the merged ones, and the result replaces the files, as in a full compaction.
So no older version of a changed row is left that could be merged with it. All other sections stay as they are.
(docs/spec/semantics.md, D7)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, row_at, values_of
from paimon_spark.core.changelog.stated_rows import STATED, StatedRows
from paimon_spark.core.columns import FILE_PATH, LEVEL, ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.levels import SortedRun, chained, max_level, sections
from paimon_spark.core.merge.config import merge_order, needed_fields
from paimon_spark.core.merge.engines.lookup import level_of
from paimon_spark.core.merge.key_groups import KeyGroups, drop_retracts, retracts, single_versions
from paimon_spark.core.merge.multi_pass import RunSource, group_sources, runs_at_once
from paimon_spark.core.metadata.deletion_vectors import StoredVectors
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import rows_in_vectors
from paimon_spark.core.row_level.live_file_lookup import LiveFileLookup
from paimon_spark.core.row_level.stated_runs import StatedRuns
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.core.write.row_conversion import WriteRules, partition_codes, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, WriterRestoreState
from paimon_spark.errors import EngineError, UnsupportedError
from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.chain_tables import is_chain_table
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, FileSource, MergeEngine, RowKind
from paimon_spark.spec.manifest import BucketKey, ManifestEntry
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.rows import encode_row

_STATED_AT_ONCE = 8
"""Number of spilled runs of changed rows that are open beside the runs of the bucket; more are merged first."""


class KeyRangeRewriter(AbortableWriter):
    """Applies the changes of one task, which has all changes of its buckets.

    A batch has the columns of the table, `ROW_KIND` (int8) and the file of a version of the row: a row of kind
    ``-D`` is removed, any other gets exactly the values that are given. Rows come in any order.

    Args:
        table: the table.
        plan: the plan of the statement; `rewritten` is the snapshot whose rows are changed.
        spill_dirs: local directories for sorted changes.
    """

    def __init__(self, table: Table, plan: WriterRestoreState, spill_dirs: Sequence[str] = ()) -> None:
        self._table = table
        rules = WriteRules.of(table).without_defaults()
        self._rules = replace(rules, dropped_kinds=(), refused_rows=())
        self._files = LiveFileLookup(table, plan.rewritten)
        buffer = table.options.write_buffer_size if plan.buffer is None else plan.buffer
        self._stated = StatedRuns(table, buffer, spill_dirs)
        self._changed: dict[BucketKey, set[str]] = defaultdict(set)
        """The names of the files that the changed rows were read from, by bucket."""
        self._writers: list[RollingWriter] = []

    @translate_io_errors()
    def change(self, batch: pa.RecordBatch) -> None:
        """Add changes.

        Raises:
            ConflictError: a file with rows to change is not part of the snapshot that the statement began with.
            UnsupportedError: a row would move to another partition.
        """
        rows = prepare_batch(batch.select([*(f.name for f in self._rules.fields), ROW_KIND]), self._rules)
        codes, buckets = self._buckets_of(batch)
        for code, bucket in enumerate(buckets):
            mine = np.flatnonzero(codes == code)
            own = rows.columns if len(mine) == rows.count else rows.columns.take(pa.array(mine))
            self._check_partition(own, bucket)
            newest = max(e.file.max_sequence_number for e in self._by_bucket[bucket])
            kinds = np.where(rows.kinds[mine] == RowKind.DELETE, RowKind.DELETE, RowKind.INSERT)
            self._stated.add(bucket, self._with_system_columns(own, newest, kinds))

    @translate_io_errors()
    def finish(self) -> list[CommitMessage]:
        """Rewrite the key ranges; return one message per bucket."""
        messages = [self._rewrite(bucket) for bucket in sorted(self._changed)]
        self._stated.close()
        return messages

    def abort(self) -> None:
        """Delete the written files."""
        self._stated.close()
        for writer in self._writers:
            writer.abort()

    @cached_property
    def _by_bucket(self) -> dict[BucketKey, list[ManifestEntry]]:
        found: dict[BucketKey, list[ManifestEntry]] = defaultdict(list)
        for e in self._files.entries():
            found[e.bucket_key].append(e)
        return found

    def _buckets_of(self, batch: pa.RecordBatch) -> tuple[I64, list[BucketKey]]:
        """Return a code for the bucket of each row, and the buckets; record the files."""
        paths = one_chunk(batch.column(FILE_PATH)).dictionary_encode()
        if paths.null_count:
            raise EngineError(f"A row to change in table {self._table.name} has no file.")
        codes: dict[BucketKey, int] = {}
        of_path = []
        for path in paths.dictionary.to_pylist():
            entry = self._files.entry(path)
            self._changed[entry.bucket_key].add(entry.file.file_name)
            of_path.append(codes.setdefault(entry.bucket_key, len(codes)))
        return np.array(of_path, np.int64)[values_of(paths.indices)], list(codes)

    def _check_partition(self, rows: pa.Table, bucket: BucketKey) -> None:
        fields = self._table.schema.partition_fields
        if not fields:
            return
        _, firsts = partition_codes(rows, fields)
        for i in firsts:
            if encode_row(row_at(rows, fields, i), self._table.partition_types) != bucket.partition:
                raise UnsupportedError(
                    f"A row of table {self._table.name} cannot move to another partition: the files of "
                    f"'{self._table.partition_text(bucket.partition)}' are rewritten.",
                    hint="Leave the partition columns as they are, or delete the row and insert it again.",
                )

    def _with_system_columns(self, rows: pa.Table, sequence: int, kinds: I64) -> pa.Table:
        n = rows.num_rows
        rows = rows.append_column(SEQUENCE_NUMBER, pa.repeat(pa.scalar(sequence, pa.int64()), n))
        rows = rows.append_column(VALUE_KIND, pa.array(kinds, pa.int8()))
        rows = rows.append_column(LEVEL, pa.repeat(pa.scalar(STATED, pa.int8()), n))
        return _as(rows, self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        """The columns of the merge, all of the table and of the merge itself."""
        fields = needed_fields(self._table, merge_order(self._table), self._table.schema.fields)
        return to_arrow_schema(fields).append(pa.field(LEVEL, pa.int8()))

    def _rewrite(self, key: BucketKey) -> CommitMessage:
        table, entries = self._table, self._by_bucket[key]
        files, names = [e.file for e in entries], self._changed[key]
        parts = [
            section
            for section in sections(files, table.key_types)
            if any(f.file_name in names for run in section for f in run.files)
        ]
        refs = {e.file.file_name: ref for e in entries if (ref := self._files.vector(e)) is not None}
        replaced = [f for section in parts for run in section for f in run.files]
        top = max_level(files, table.stored_options.num_levels)
        rows, changelog = self._writer(key, top, changelog=False), self._writer(key, top, changelog=True)
        merge = StatedRows.of(table, merge_order(table).function, top)
        reader = BucketFiles(table, *key, rows_in_vectors(table, refs))
        for groups in self._groups(reader, chained(parts), self._stated.of(key)):
            merged = merge(groups)
            kept = self._kept(merged.rows)
            if kept.num_rows:
                rows.write(kept)
            if merged.changelog is not None and merged.changelog.num_rows:
                changelog.write(merged.changelog)
        vectors = StoredVectors(table.file_io)
        seen = (
            (f.file_name, vectors.fingerprint(f.file_name, refs[f.file_name])) for f in replaced if f.file_name in refs
        )
        return CommitMessage(
            partition=key.partition,
            bucket=key.bucket,
            total_buckets=entries[0].total_buckets,
            new_files=tuple(rows.close()),
            deleted_files=tuple(replaced),
            new_changelog=tuple(changelog.close()),
            vectors_seen=tuple(seen),
        )

    def _kept(self, rows: pa.Table) -> pa.Table:
        """Return the merged rows to write: those of a chain table keep retracts, which change earlier partitions.

        Where the merge engine takes no deletes, a row that the statement deletes leaves no retract.
        """
        options = self._table.options
        if not is_chain_table(options):
            return drop_retracts(rows)
        if options.merge_engine is MergeEngine.DEDUPLICATE or options.removes_record_on_delete:
            return rows
        deleted = (level_of(rows) == STATED) & retracts(rows)
        return rows.filter(pa.array(~deleted)) if deleted.any() else rows

    def _groups(
        self, files: BucketFiles, runs: Sequence[SortedRun], stated: Sequence[RunSource]
    ) -> Iterator[KeyGroups]:
        """Yield all versions of all keys in key order."""
        table = self._table
        order = replace(
            merge_order(table), picks=False
        )  # all versions of a key are kept until the last pass, because their levels matter
        sources = [*(RunSource(r.size, partial(self._read, files, r)) for r in runs), *stated]
        at_once = runs_at_once(table, runs, len(self._schema)) + min(len(stated), _STATED_AT_ONCE)
        for part in group_sources(table, sources, order, at_once):
            yield part if isinstance(part, KeyGroups) else single_versions(part)

    def _read(self, files: BucketFiles, run: SortedRun, chunk_bytes: int) -> Iterator[pa.Table]:
        fields = needed_fields(self._table, merge_order(self._table), self._table.schema.fields)
        for rows in files.run(run, fields, TRUE, (LEVEL,), chunk_bytes):
            yield _as(rows, self._schema)

    def _writer(self, key: BucketKey, level: int, *, changelog: bool) -> RollingWriter:
        source = FileSource.APPEND if changelog else FileSource.COMPACT
        writer = RollingWriter(self._table, *key, level=level, source=source, changelog=changelog)
        self._writers.append(writer)
        return writer


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; a cast would refuse null rows with NOT NULL members."""
    columns = ((f, rows.column(f.name)) for f in schema)
    return pa.Table.from_arrays([c if c.type == f.type else c.cast(f.type) for f, c in columns], schema=schema)

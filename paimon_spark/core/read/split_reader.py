"""Reads a split in the table's current schema (docs/spec/semantics.md, section 8).

A raw split is read file by file. Any other split is merged section by section; a section of a single run is read
without comparing keys. Memory: a merge decodes a few megabytes at a time, whatever the size of row groups, and the
number of open runs is bounded (`merge.multi_pass`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.clustered_files import sections_to_read
from paimon_spark.core.columns import LEVEL, METADATA_FIELDS, ROW_KIND, ROW_KIND_FIELD, TRACKING_FIELDS
from paimon_spark.core.levels import SortedRun, oldest_first, sections
from paimon_spark.core.merge.config import KIND_FIELD, merge_order, needed_fields
from paimon_spark.core.merge.key_groups import drop_retracts
from paimon_spark.core.merge.multi_pass import RunSource, merge_sources, runs_at_once
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.read.arrow_predicates import to_expression
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.postponed_runs import rows_with_postponed
from paimon_spark.core.read.stitched_rows import stitched_rows
from paimon_spark.core.scan.splits import Difference, Split
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.base import DEFAULT_BATCH_ROWS
from paimon_spark.format.filters import matching_rows
from paimon_spark.format.schema_conform import empty_columns
from paimon_spark.spec.kinds import VALUE_KIND, RowKind
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate, columns_of, project
from paimon_spark.spec.types import DataField


def read_split(
    table: Table,
    split: Split,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    *,
    keep_kinds: bool = False,
    metadata_columns: Sequence[str] = (),
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split for which `predicate` is true.

    Args:
        table: the table at the schema to read with.
        split: files of one bucket.
        columns: columns to return, in this order; all by default.
        predicate: filter over columns of the table, applied exactly.
        keep_kinds: keep retracts, and append the column `ROW_KIND` (int8).
        metadata_columns: names of `METADATA_FIELDS`, appended in this order. A merged row has the location of the
            version that won. The tracking columns require a table with row tracking.
        batch_rows: maximum number of rows per batch.
    """
    wanted = table.schema.fields if columns is None else tuple(table.schema.field(c) for c in columns)
    condition = predicate or TRUE
    read = tuple({f.id: f for f in (*wanted, *(table.schema.field(c) for c in sorted(columns_of(condition))))}.values())
    read = (*(read or table.schema.fields[:1]), *(f for f in TRACKING_FIELDS if f.name in metadata_columns))
    files = BucketFiles.of(table, split)
    wanted_places = tuple(f for f in METADATA_FIELDS if f.name in metadata_columns)
    rows = _Rows(files, split, read, condition, keep_kinds, metadata_columns).read()
    expression = None if condition == TRUE else to_expression(condition, {f.name: f for f in read})
    out = (*wanted, *((ROW_KIND_FIELD,) if keep_kinds else ()), *wanted_places)
    schema = to_arrow_schema(out)
    for chunk in rows:
        kept = chunk if expression is None else matching_rows(chunk, expression)
        if kept.num_rows:
            yield from _batches(kept, schema, batch_rows)


def _batches(rows: pa.Table, schema: pa.Schema, batch_rows: int) -> list[pa.RecordBatch]:
    if not schema.names:
        return [empty_columns(rows.num_rows)]
    table = pa.Table.from_arrays([rows.column(n) for n in schema.names], schema=schema)
    return table.to_batches(max_chunksize=batch_rows)


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield `batches` up to `limit` rows, slicing the last one; all of them if `limit` is None."""
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if left == 0:
            return


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a split with some columns, before the condition is applied exactly."""

    files: BucketFiles
    split: Split
    fields: tuple[DataField, ...]
    condition: Predicate
    keep_kinds: bool
    metadata_columns: Sequence[str]

    def read(self) -> Iterator[pa.Table]:
        """Return the rows by the kind of the split: one state, a difference of states, or files as written."""
        if self.split.unmerged:
            return self._written()
        return self._current() if self.split.difference is None else self._differing(self.split.difference)

    def _current(self) -> Iterator[pa.Table]:
        table, split = self.files.table, self.split
        if not table.is_primary_key_table:
            yield from self._appended()
        elif split.raw and not self.keep_kinds:
            for file in split.files:
                yield from self._chunks(file, self.fields)
        else:
            if split.postponed:
                _check_metadata_columns(table, self.metadata_columns)
                merged = rows_with_postponed(table, split, self.fields)
            else:
                runs = sections_to_read(table, split.files)
                merged = merged_rows(self.files, runs, self.fields, self.condition, self.metadata_columns)
            for rows in merged:
                kept = rows if self.keep_kinds else drop_retracts(rows)
                if kept.num_rows:
                    yield self._named(kept)

    def _appended(self) -> Iterator[pa.Table]:
        if evolves(self.files.table):
            found = stitched_rows(self.files, self.split.files, self.fields, self.condition, self.metadata_columns)
        else:
            found = chain.from_iterable(self._chunks(file, self.fields) for file in self.split.files)
        return map(_with_kind, found) if self.keep_kinds else found

    def _written(self) -> Iterator[pa.Table]:
        """Yield the rows of files one by one, as they were written."""
        if not self.files.table.is_primary_key_table:
            yield from self._appended()
            return
        stored = self.keep_kinds or not self.split.raw
        fields = (*self.fields, KIND_FIELD) if stored else self.fields
        for file in self.split.files:
            for rows in self._chunks(file, fields):
                yield self._named(rows) if self.keep_kinds or not stored else drop_retracts(rows)

    def _differing(self, difference: Difference) -> Iterator[pa.Table]:
        """Yield the rows by which two states differ; all columns are read, because all are compared."""
        from paimon_spark.core.read.difference import (
            difference_rows,
        )  # not at module level, because most workers do not need it

        table, schema = self.files.table, self.files.table.schema
        on_keys = project(self.condition, (*schema.partition_keys, *schema.trimmed_primary_keys))
        fields = tuple({f.id: f for f in (*schema.fields, *self.fields)}.values())

        def merged(side: Split) -> Iterator[pa.Table]:
            return merged_rows(
                BucketFiles.of(table, side),
                sections(side.files, table.key_types),
                fields,
                on_keys,
                self.metadata_columns,
            )

        before, after = ([merged(s) for s in side] for side in (difference.before, difference.after))
        known = {*schema.partition_keys, *schema.primary_keys}
        values = [f for f in schema.fields if f.name not in known]
        for rows in difference_rows(before, after, table.key_fields, values, keep_kinds=self.keep_kinds):
            yield self._named(rows)

    def _chunks(self, file: DataFileMeta, fields: tuple[DataField, ...]) -> Iterator[pa.Table]:
        return self.files.chunks(file, fields, self.condition, metadata_columns=self.metadata_columns)

    def _named(self, rows: pa.Table) -> pa.Table:
        return rows.rename_columns({VALUE_KIND: ROW_KIND}) if self.keep_kinds else rows


def _check_metadata_columns(table: Table, metadata_columns: Sequence[str]) -> None:
    if metadata_columns:
        raise UnsupportedError(
            f"The column {metadata_columns[0]} cannot be read while postponed rows of table {table.name} are merged: "
            "they are not in a bucket.",
            hint="Set 'postpone.merge-on-read' = 'false' for the statement, or call sys.compact first.",
        )


def _with_kind(rows: pa.Table) -> pa.Table:
    kinds = np.full(rows.num_rows, RowKind.INSERT, dtype=np.int8)
    return rows.append_column(ROW_KIND, pa.array(kinds))


def merged_rows(
    files: BucketFiles,
    parts: Sequence[Sequence[SortedRun]],
    columns: tuple[DataField, ...],
    condition: Predicate = TRUE,
    metadata_columns: Sequence[str] = (),
) -> Iterator[pa.Table]:
    """Yield the merged rows of sections in key order, retracts included, with system columns beside `columns`.

    `condition` only prunes: rows for which it is false may still be returned. For `metadata_columns` see `read_split`.
    """
    order = merge_order(files.table)
    read = needed_fields(files.table, order, columns)
    on_keys = project(condition, [f.name for f in order.key])
    keys = None if on_keys == TRUE else to_expression(on_keys, {f.name: f for f in order.key})
    for section in parts:
        pushed = condition if len(section) == 1 else on_keys
        extra = (*metadata_columns, LEVEL) if order.levels else metadata_columns
        runs = oldest_first(section)
        sources = [RunSource(r.size, partial(_matching, files, r, read, pushed, extra, keys)) for r in runs]
        for rows in merge_sources(files.table, sources, order, runs_at_once(files.table, section, len(read))):
            yield rows.drop_columns([LEVEL]) if order.levels else rows


def _matching(
    files: BucketFiles,
    run: SortedRun,
    fields: Sequence[DataField],
    pushed: Predicate,
    metadata_columns: Sequence[str],
    keys: pc.Expression | None,
    chunk_bytes: int,
) -> Iterator[pa.Table]:
    """Yield the rows of a run whose keys match: all versions of a key do, or none, so that others need no merge."""
    for rows in files.run(run, fields, pushed, metadata_columns, chunk_bytes):
        kept = rows if keys is None else matching_rows(rows, keys)
        if kept.num_rows:
            yield kept

"""Merges postponed rows into their buckets on read (docs/spec/semantics.md, B4).

A split with postponed files has all files of one bucket. The postponed rows of that bucket are sorted in this process,
with spilling, and merged as the newest runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from paimon_spark.core.buckets.fixed_buckets import key_buckets_of
from paimon_spark.core.columns import LEVEL
from paimon_spark.core.levels import chained, sections
from paimon_spark.core.merge.config import merge_order, needed_fields
from paimon_spark.core.merge.multi_pass import RunSource, merge_sources, runs_at_once, spilled_source
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_rows
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.spill.space import SpillRules, SpillSpace, local_directories
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import SEQUENCE_NUMBER
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.types import DataField

_FEWEST_OPEN = 4


def rows_with_postponed(table: Table, split: Split, columns: Sequence[DataField]) -> Iterator[pa.Table]:
    """Yield the merged rows of a split with postponed files in key order, retracts included, with system columns."""
    order = merge_order(table)
    read = needed_fields(table, order, tuple(columns))
    files = BucketFiles.of(table, split)
    runs = chained(sections(split.files, table.key_types))
    extra = (LEVEL,) if order.levels else ()
    sources = [RunSource(r.size, partial(files.run, r, read, TRUE, extra)) for r in runs]
    rules = SpillRules.of(table.options, table.options.write_buffer_size)
    space = None if rules is None else SpillSpace(rules, local_directories())
    try:
        sources += _sorted_rows(table, split, read, order, space)
        at_once = max(_FEWEST_OPEN, runs_at_once(table, runs, len(read)))
        for rows in merge_sources(table, sources, order.after_partial(), at_once):
            yield rows.drop_columns([LEVEL]) if order.levels else rows
    finally:
        if space is not None:
            space.close()


def _with_level(rows: pa.Table, level: int) -> pa.Table:
    return rows.append_column(LEVEL, pa.repeat(pa.scalar(level, pa.int8()), rows.num_rows))


def _sorted_rows(
    table: Table, split: Split, fields: Sequence[DataField], order: MergeOrder, space: SpillSpace | None
) -> list[RunSource]:
    """Return sorted runs of the postponed rows of the bucket, oldest first: spilled ones, then one in memory."""
    budget = (table.options.write_buffer_size if space is None else space.rules.buffer) // 2
    first = max((f.max_sequence_number for f in split.files), default=-1) + 1
    sources: list[RunSource] = []
    waiting: list[pa.Table] = []
    size = 0

    def in_memory() -> pa.Table:
        rows = pa.concat_tables(waiting)
        waiting.clear()
        return merge_rows(_with_level(rows, 0) if order.levels else rows, order.partial())

    for rows in _own_rows(table, split, fields):
        numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        first += rows.num_rows
        waiting.append(rows.set_column(rows.schema.get_field_index(SEQUENCE_NUMBER), SEQUENCE_NUMBER, numbers))
        size += rows.nbytes
        if space is not None and size > budget:
            sources.append(_source(in_memory(), space))
            size = 0
    if waiting:
        sources.append(_source(in_memory(), None))
    return sources


def _source(rows: pa.Table, space: SpillSpace | None) -> RunSource:
    run = None if space is None else space.write([rows])
    if run is not None and space is not None:
        return spilled_source(space, run)
    return RunSource(rows.nbytes, lambda _: iter([rows]))


def _own_rows(table: Table, split: Split, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    """Yield the postponed rows of the bucket in the order in which they were written."""
    files = BucketFiles(table, split.partition, POSTPONE_BUCKET)
    keys = [f for f in table.bucket_key_fields if f not in fields]
    names = [f.name for f in fields]
    for rows in chain.from_iterable(files.chunks(f, (*fields, *keys)) for f in split.postponed):
        buckets = key_buckets_of(table, rows, split.total_buckets)
        mine = np.flatnonzero(buckets == split.bucket)
        if len(mine):
            yield rows.select(names).take(pa.array(mine))

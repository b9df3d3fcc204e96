"""Finds the stored rows of a split that are not visible to readers: superseded, retracted, or deleted by a vector.

Only keys are decoded if each sorted run is newer than the previous one; otherwise also sequence numbers and kinds. The
cost does not depend on the number of columns. With the result, any reader can read the data columns without a merge,
filtered by the row positions in each file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.clustered_files import sections_to_read
from paimon_spark.core.levels import SortedRun, oldest_first
from paimon_spark.core.merge.config import KIND_FIELD, merge_order, needed_fields
from paimon_spark.core.merge.engines.deduplicate import deduplicate, deduplicate_ignoring_deletes
from paimon_spark.core.merge.key_groups import KeyGroups, drop_retracts, retracts
from paimon_spark.core.merge.multi_pass import MERGE_BYTES
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_key_groups, overlapping_slices, superseded
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.deleted_rows import DeletedRows
from paimon_spark.core.read.row_ordinals import ORDINAL, RowOrdinals, ordinals_of
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.file_index.roaring import MOST_ROWS
from paimon_spark.spec.kinds import VALUE_KIND
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.types import DataField

SUPERSEDED = pa.schema({"split": pa.string(), "file": pa.string(), "rows": pa.binary()})
"""Superseded rows as rows: the key of a split, the path of a file, a serialized bitmap of positions."""
_TEXT_BYTES = 32
_FEW_VECTOR_FILES = 8
_FEW_VECTOR_BYTES = 4 << 20
_Finder = Callable[[Sequence[Iterator[pa.Table]]], Iterator[I64]]


def few_vectors(splits: Sequence[Split]) -> bool:
    """Return whether the deletion vectors of `splits` are read faster here than by tasks."""
    refs = [v for s in splits for v in s.vectors if v is not None]
    return len({v.path for v in refs}) <= _FEW_VECTOR_FILES and sum(v.length for v in refs) <= _FEW_VECTOR_BYTES


def superseded_rows(table: Table, split: Split) -> Iterator[tuple[str, BitMap]]:
    """Yield each file of `split` that has superseded rows: its path, and the positions of those rows.

    Memory: one bit per row of the split, and the memory of a merge.
    """
    return superseded_in(BucketFiles.of(table, split), split)


def superseded_batch(table: Table, split: Split, key: str) -> pa.RecordBatch:
    """Return what `superseded_rows` yields as rows of `SUPERSEDED`, and one row without file and bitmap.

    Args:
        table: the table.
        split: one of its splits.
        key: the value of the first column.
    """
    found: list[tuple[str | None, bytes | None]] = [(None, None)]
    found += [(path, rows.serialize()) for path, rows in superseded_rows(table, split)]
    paths, bitmaps = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.repeat(key, len(found)), pa.array(paths, pa.string()), pa.array(bitmaps, pa.binary())], schema=SUPERSEDED
    )


def bytes_of_keys(table: Table, split: Split) -> int:
    """Return the estimated bytes in data files that `superseded_rows` decodes: the share of keys and sequence fields.

    That is their share of all columns, or, if it is larger, of the width of a row. The files of a split that is not
    merged are not read.
    """
    if not table.is_primary_key_table or split.raw:
        return 0
    order = merge_order(table)
    read = {f.name for f in (*order.key, *order.sequence)}
    widths = {f.name: _width(f) for f in table.schema.fields}
    share = max(len(read) / len(widths), sum(widths[name] for name in read) / sum(widths.values()))
    return int(split.size * share)


def _width(field: DataField) -> float:
    """Return the bytes that a value takes in memory, or an assumption for values of any length."""
    try:
        return float(to_arrow_type(field.type).bit_width / 8)
    except ValueError:
        return _TEXT_BYTES


def superseded_in(files: BucketFiles, split: Split, *, merge_bytes: int = MERGE_BYTES) -> Iterator[tuple[str, BitMap]]:
    """Yield what `superseded_rows` does.

    Args:
        files: the files of the bucket that `split` belongs to.
        split: which of them.
        merge_bytes: bytes of rows that all runs of a merge decode at a time.
    """
    table = files.table
    if not table.is_primary_key_table or split.raw:
        yield from _deleted(files, split.files)
        return
    for section in sections_to_read(table, split.files):
        runs = oldest_first(section)
        members = [f for run in runs for f in run.files]
        if len(runs) == 1 and all(f.delete_row_count == 0 for f in members):
            yield from _deleted(files, members)
            continue
        for file, positions in zip(members, _merged(files, runs, members, merge_bytes), strict=True):
            if positions:
                yield files.path(file), positions


def _deleted(files: BucketFiles, unmerged: Sequence[DataFileMeta]) -> Iterator[tuple[str, BitMap]]:
    """Yield the deleted rows of files of which no row is superseded by another."""
    for file in unmerged:
        positions = _deleted_in(file, files.deleted_rows)
        if positions:
            yield files.path(file), positions


def _deleted_in(file: DataFileMeta, deleted: DeletedRows) -> BitMap:
    found = deleted(file)
    return BitMap() if found is None else found.positions & BitMap(range(min(file.row_count, MOST_ROWS)))


def _merged(
    files: BucketFiles, runs: Sequence[SortedRun], members: Sequence[DataFileMeta], merge_bytes: int
) -> list[BitMap]:
    """Return, for each file in `members`, the positions of rows that are deleted or do not survive the merge of `runs`.

    The runs of a section are ordered from oldest to newest, and `members`, their files, likewise.
    """
    find, read = _strategy(files.table, runs, members)
    numbered = RowOrdinals(members)
    share = merge_bytes // len(runs) // 2
    bitmaps = [_deleted_in(f, files.deleted_rows) for f in members]
    for ordinals in find([numbered.read(files, r, read, TRUE, (), share) for r in runs]):
        checkpoint()
        numbered.add_to(bitmaps, ordinals)
    return bitmaps


def _strategy(
    table: Table, runs: Sequence[SortedRun], members: Sequence[DataFileMeta]
) -> tuple[_Finder, Sequence[DataField]]:
    """Return the algorithm that finds superseded rows of the runs, and its columns: only keys if they suffice."""
    order = merge_order(table)
    retracting = any(f.delete_row_count != 0 for f in members)
    last_wins = order.function is deduplicate or (order.function is deduplicate_ignoring_deletes and not retracting)
    if last_wins and not order.sequence and _in_turn(runs):
        return partial(_superseded, order=order), (*order.key, *([KIND_FIELD] if retracting else ()))
    return partial(_dropped, order=order), needed_fields(table, order, ())


def _in_turn(runs: Sequence[SortedRun]) -> bool:
    """Return whether each row of a run is newer than all rows of the runs before it."""
    first = [min(f.min_sequence_number for f in r.files) for r in runs]
    last = [max(f.max_sequence_number for f in r.files) for r in runs]
    return all(before < after for before, after in zip(last, first[1:], strict=False))


def _superseded(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[I64]:
    """Yield, ascending, the ordinals of retracts and of rows whose key occurs in a later run."""
    for slices in overlapping_slices(runs, order.key):
        for part, found in zip(slices, superseded(slices), strict=True):
            if VALUE_KIND in part.rows.column_names:
                found |= retracts(part.rows)
            yield ordinals_of(part.rows)[found]


def _dropped(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[I64]:
    """Yield, ascending, the ordinals of rows that a merge drops, and of retracts."""
    for part in merge_key_groups(runs, order):
        rows = part.rows if isinstance(part, KeyGroups) else part
        if isinstance(part, KeyGroups) and len(part.starts) < len(part.order):
            numbered = pa.table({VALUE_KIND: rows.column(VALUE_KIND), ORDINAL: np.arange(rows.num_rows)})
            dropped = np.ones(rows.num_rows, dtype=np.bool_)
            dropped[ordinals_of(drop_retracts(order.function(replace(part, rows=numbered))))] = False
        else:
            dropped = retracts(rows)
        yield ordinals_of(rows)[dropped]

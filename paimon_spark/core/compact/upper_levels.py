"""The files above the output level of a compaction: which of their rows have a key that the compaction writes.

(docs/spec/semantics.md, M20 and section 7)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from paimon_spark.core.levels import SortedRun, key_range, sorted_runs
from paimon_spark.core.merge.sort_merge import overlapping_slices, superseded
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.row_ordinals import ORDINAL, RowOrdinals, ordinals_of
from paimon_spark.format.arrays import I64
from paimon_spark.spec.kinds import SEQUENCE_NUMBER
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Comparison, Predicate, and_
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.types import DataField, DataType, TypeRoot, has_root

_CHUNK_BYTES = 1 << 20
_NONE = np.zeros(0, dtype=np.int64)


def overlapping(
    files: Sequence[DataFileMeta], upper: Sequence[DataFileMeta], key_types: Sequence[DataType]
) -> list[SortedRun]:
    """Return the sorted runs of the `upper` files whose key range overlaps that of one of `files`, in key order."""
    if not upper:
        return []
    ranges = [key_range(f, key_types) for f in files]

    def overlaps(file: DataFileMeta) -> bool:
        first, last = key_range(file, key_types)
        return any(low <= last and first <= high for low, high in ranges)

    near = [f for f in upper if overlaps(f)]
    return sorted_runs(sorted(near, key=lambda f: key_range(f, key_types)))


def without_existing_keys(
    rows: Iterator[pa.Table],
    merged: Sequence[DataFileMeta],
    files: BucketFiles,
    upper: Sequence[SortedRun],
    key: Sequence[DataField],
) -> Iterator[pa.Table]:
    """Yield the rows whose key is in none of the `upper` runs. Memory: a chunk of rows, and of keys of each run.

    Args:
        rows: rows with system columns in key order, one per key.
        merged: the files that they come from.
        files: the files of the bucket.
        upper: the sorted runs above the output level.
        key: the key columns.
    """
    unit = _Ending(rows)
    condition = range_of(merged, key)
    runs = [iter(unit), *(files.run(r, key, condition, (), _CHUNK_BYTES) for r in upper)]
    for slices in overlapping_slices(runs, key):
        own = [SEQUENCE_NUMBER in part.rows.column_names for part in slices]
        if unit.ended and not any(own):
            return
        for part, is_own, exists in zip(slices, own, superseded(slices), strict=True):
            if is_own:
                yield part.rows.filter(pa.array(~exists)) if exists.any() else part.rows


def with_replaced(
    rows: Iterator[pa.Table],
    merged: Sequence[DataFileMeta],
    files: BucketFiles,
    upper: Sequence[SortedRun],
    ordinals: RowOrdinals,
    key: Sequence[DataField],
) -> Iterator[tuple[pa.Table | None, I64]]:
    """Yield the rows, and the ordinals of the rows of the `upper` runs that have their keys, ascending in each step.

    The arguments are those of `without_existing_keys`; `ordinals` numbers the rows of the upper files.
    """
    unit = _Ending(rows)
    condition = range_of(merged, key)
    read = partial(ordinals.read, files)
    runs = [*(read(r, key, condition, (), _CHUNK_BYTES) for r in upper), iter(unit)]
    for slices in overlapping_slices(runs, key):
        own = slices[-1].rows if ORDINAL not in slices[-1].rows.column_names else None
        if own is None and unit.ended:
            return
        if own is None or len(slices) == 1:
            yield own, _NONE
            continue
        found = [ordinals_of(p.rows)[m] for p, m in zip(slices[:-1], superseded(slices)[:-1], strict=True)]
        yield own, np.sort(np.concatenate(found))


class _Ending:
    """Chunks of rows, and whether they have ended."""

    def __init__(self, rows: Iterator[pa.Table]) -> None:
        self._rows = rows
        self.ended = False

    def __iter__(self) -> Iterator[pa.Table]:
        yield from self._rows
        self.ended = True


def range_of(files: Sequence[DataFileMeta], key: Sequence[DataField]) -> Predicate:
    """Return the range of the first key column.

    Floats, of which NaN has no range, and CHAR, which filters do not compare like keys, are not limited.
    """
    first = key[0]
    if has_root(first.type, (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.CHAR)):
        return TRUE
    types = [f.type for f in key]
    low = min(decode_row(f.min_key, types)[0] for f in files)
    high = max(decode_row(f.max_key, types)[0] for f in files)
    return and_(Comparison(">=", first.name, low), Comparison("<=", first.name, high))

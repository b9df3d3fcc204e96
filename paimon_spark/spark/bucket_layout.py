"""The bucketing of the rows of a read, by which Spark joins and groups by the bucket key without a shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.levels import key_range
from paimon_spark.core.table import Table
from paimon_spark.engine.select import SelectPlan
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.shuffle_spec import HashedField, hashed_fields
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot, beyond_micros

_MOST_SORTED_FILES = 10_000
_MOST_RUNS = 64
_SORTED_ALIKE = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
    TypeRoot.DECIMAL,
    TypeRoot.VARCHAR,
)


_UNSORTED: tuple[tuple[str, ...], int, int, int] = ((), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """The message that `BucketLayout` of the bridge reads.

    Attributes:
        buckets: the number of buckets of every partition.
        function: the bucket function.
        fields: the columns of the bucket key.
        sorted: the columns by which rows are sorted, if Spark's own scan reads them.
        runs: the largest number of sorted runs of a bucket: its rows, in the order of its files, are as many
            sequences of ascending keys. Keys are unique in one run, and in several only within each partition.
        most_rows: the number of rows in the files of the largest bucket, if rows are sorted.
        most_bytes: the size of the files of the largest bucket, if rows are sorted.
    """

    buckets: int
    function: str
    fields: tuple[HashedField, ...]
    sorted: tuple[str, ...]
    runs: int
    most_rows: int
    most_bytes: int


def is_bucketed(table: Table) -> bool:
    """Return whether the bucket of a row is a fixed function of its key."""
    return table.bucket_mode is BucketMode.HASH_FIXED


def bucket_layout(plans: Sequence[SelectPlan], readings: Sequence[ReadRequest]) -> dict[str, object] | None:
    """Return the layout of planned reads, or None unless the key alone determines the bucket of each row.

    Partitions of a table may have different numbers of buckets, as have snapshots. Changes, and the rows of other
    branches, have no such layout.
    """
    if len(plans) != 1:
        return None
    plan = plans[0]
    table = plan.table
    if not is_bucketed(table) or plan.changes or plan.keep_kinds:
        return None
    counts = {s.total_buckets for s in plan.splits} or {table.options.bucket}
    buckets = counts.pop()
    if counts or buckets < 1 or any(not 0 <= s.bucket < buckets or s.postponed for s in plan.splits):
        return None
    if any(map(_equal_in_several_buckets, table.bucket_key_fields)):
        return None
    fields = hashed_fields(table.bucket_key_fields)
    function = table.options.bucket_function_type.value
    return asdict(BucketLayout(buckets, function, fields, *_sorted_by(readings[0])))


def _sorted_by(reading: ReadRequest) -> tuple[tuple[str, ...], int, int, int]:
    """Return the `sorted`, `runs`, `most_rows` and `most_bytes` of a layout.

    Returns: no columns if other readers than Spark's scan take part, if Spark sorts such keys differently, or if there
        are more than `_MOST_RUNS` runs.
    """
    table, modes = reading.table, reading.read_modes
    scans = (*modes.native_files, *modes.filtered_files)
    splits = [s for scan in scans for s in scan.splits]
    if not table.is_primary_key_table or has_unsorted_keys(table) or modes.workers or modes.small or not splits:
        return _UNSORTED
    if not all(_sorts_alike(f.type) for f in table.key_fields):
        return _UNSORTED
    if sum(s.file_count for s in splits) > _MOST_SORTED_FILES:
        return _UNSORTED
    runs: dict[int, int] = {}
    rows: dict[int, int] = {}
    sizes: dict[int, int] = {}
    last: dict[int, tuple[bytes, tuple[Any, ...]]] = {}
    for split in splits:
        bucket = split.bucket
        for file in split.files:
            low, high = key_range(file, table.key_types)
            before = last.get(bucket)
            if before is None or before[0] != split.partition or before[1] >= low:
                runs[bucket] = runs.get(bucket, 0) + 1
                if runs[bucket] > _MOST_RUNS:
                    return _UNSORTED
            last[bucket] = (split.partition, high)
            rows[bucket] = rows.get(bucket, 0) + file.row_count
            sizes[bucket] = sizes.get(bucket, 0) + file.file_size
    keys = tuple(f.name for f in table.key_fields)
    return keys, max(len(scans), *runs.values()), max(rows.values()), max(sizes.values())


def _sorts_alike(t: DataType) -> bool:
    """Return whether Spark and data files sort the values of a key column alike."""
    return isinstance(t, AtomicType) and t.root in _SORTED_ALIKE and beyond_micros(t) is None


def _equal_in_several_buckets(f: DataField) -> bool:
    """Return whether equal values in Spark may be in several buckets.

    They are 0.0 and -0.0, digits that Spark truncates, and a default, which Paimon writes to the bucket of NULL.
    """
    number = isinstance(f.type, AtomicType) and f.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    return number or beyond_micros(f.type) is not None or (f.default_value is not None and f.type.nullable)

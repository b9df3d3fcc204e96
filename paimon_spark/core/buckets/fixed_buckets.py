"""The bucket of each row where its partition has a fixed number of buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.buckets.bucket_hash import key_buckets
from paimon_spark.core.char_values import padded_columns
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I32, I64
from paimon_spark.spec.kinds import BucketMode


def fixed_buckets(table: Table, columns: pa.Table) -> I32:
    """Return the bucket of each row of a table with a fixed number of buckets."""
    if table.options.bucket == 1:
        return np.zeros(columns.num_rows, dtype=np.int32)
    return key_buckets_of(table, columns, table.options.bucket)


def partition_buckets(
    table: Table, columns: pa.Table, codes: I64, partitions: Sequence[bytes], buckets_of: Callable[[bytes], int]
) -> I32:
    """Return the bucket of each row of a table with a fixed number of buckets, in all partitions or in each.

    Args:
        table: the table.
        columns: the rows.
        codes: the position in `partitions` of the partition of each row.
        partitions: the partitions of the rows.
        buckets_of: returns the number of buckets of a partition, in a table with postponed buckets.
    """
    if table.bucket_mode is not BucketMode.POSTPONE:
        return fixed_buckets(table, columns)
    counts = np.array([buckets_of(p) for p in partitions], dtype=np.int32)
    return key_buckets_of(table, columns, counts[codes])


def key_buckets_of(table: Table, columns: pa.Table, buckets: int | I32) -> I32:
    """Return the bucket of each row, of the same number of buckets for all or of one for each."""
    fields = table.bucket_key_fields
    return key_buckets(table.options.bucket_function_type, padded_columns(columns, fields), fields, buckets)

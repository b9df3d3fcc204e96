"""Divides rows among the tasks that write their buckets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import row_at
from paimon_spark.core.buckets.fixed_buckets import partition_buckets
from paimon_spark.core.columns import SHUFFLE_BUCKET
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import group_codes, partition_codes
from paimon_spark.spec.rows import encode_row


class BucketRouter:
    """Finds the bucket of each row, and the task that writes the bucket.

    Args:
        table: the table to write.
        buckets_of: returns the number of buckets of a partition, in a table with postponed buckets.
        tasks: number of tasks.
    """

    def __init__(self, table: Table, buckets_of: Callable[[bytes], int], tasks: int) -> None:
        self._table = table
        self._buckets_of = buckets_of
        self._tasks = tasks

    def route(self, batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, int, pa.Table]]:
        """Yield task, position and rows, with their buckets in `SHUFFLE_BUCKET`; rows of one task stay in order.

        Args:
            batches: rows, and the position of each batch.
        """
        fields = self._table.schema.partition_fields
        for position, batch in batches:
            rows = pa.Table.from_batches([batch])
            codes, firsts = partition_codes(rows, fields)
            partitions = [encode_row(row_at(rows, fields, i), self._table.partition_types) for i in firsts]
            buckets = partition_buckets(self._table, rows, codes, partitions, self._buckets_of)
            spread = np.array([zlib.crc32(p) for p in partitions], dtype=np.int64)
            tasks = ((spread[codes] + buckets) % self._tasks).astype(np.int32)
            rows = rows.append_column(SHUFFLE_BUCKET, pa.array(buckets))
            order, starts, groups = group_codes(np.zeros(len(tasks), np.int64), tasks)
            if order is not None:
                rows = rows.take(pa.array(order))
            ends = [*starts[1:], rows.num_rows]
            for (_, task), start, end in zip(groups, starts, ends, strict=True):
                yield task, position, rows.slice(start, end - start)

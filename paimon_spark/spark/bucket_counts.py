"""Numbers of buckets for the partitions of a write to a table with postponed buckets.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StructType

from paimon_spark.core.arrow import constant_column
from paimon_spark.core.columns import reserved
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WritePlan
from paimon_spark.engine.postpone_buckets import buckets_by_rows, postponed_rows
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import COUNTED, counter
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.job_control import cancel_on_failure
from paimon_spark.spark.jvm_frames import arrow_batches, arrow_frame, few_rows
from paimon_spark.spark.types import batch_for_spark, plain_struct
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.types import AtomicType, TypeRoot

BUCKETS = reserved("_buckets_")
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)


@contextmanager
def with_bucket_counts(
    session: SparkSession, plan: WritePlan, frame: DataFrame
) -> Iterator[tuple[WritePlan, DataFrame]]:
    """Yield the plan with a number of buckets for each partition, and the rows with that number in `BUCKETS`.

    Rows of partitions that may be new are counted first; they are kept by Spark in between, so that the query runs
    once.
    """
    table, options = plan.table, plan.table.options
    known = dict(plan.info.bucket_counts)
    only = encode_row((), ()) if not table.schema.partition_keys else None
    few = few_rows(frame) and options.postpone_target_row_num_per_bucket is None
    if only in known or few or options.postpone_max_buckets <= 1:
        yield plan, _counted(session, table, frame, known)
        return
    # The extra column keeps the stored rows apart from those of a query that the user has cached.
    kept = frame.withColumn(BUCKETS, f.lit(0)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = {**_new_counts(session, plan, kept), **known}
        info = replace(plan.info, bucket_counts=counts)
        yield replace(plan, info=info), _counted(session, table, kept.drop(BUCKETS), counts)
    finally:
        kept.unpersist()


def _new_counts(session: SparkSession, plan: WritePlan, frame: DataFrame) -> dict[bytes, int]:
    table, options = plan.table, plan.table.options
    job = map_in_arrow(arrow_batches(frame), counter(table), COUNTED)
    try:
        with cancel_on_failure(session, description=f"count rows for {table.name}"):
            found = job.collect()
    except Exception as error:
        raise clear_failure(error) from error
    target = options.postpone_target_row_num_per_bucket
    sums: dict[bytes, int] = {}
    if target is not None and plan.overwrite is None:
        sums = postponed_rows(live_in_partitions(ManifestStore(table), table.snapshots.latest(), None))
    for row in found:
        partition = bytes(row.partition)
        sums[partition] = sums.get(partition, 0) + (row.bytes if target is None else row.rows)
    each = options.postpone_target_size_per_bucket if target is None else target
    return {p: min(buckets_by_rows(n, each), options.postpone_max_buckets) for p, n in sums.items()}


def _counted(session: SparkSession, table: Table, frame: DataFrame, counts: Mapping[bytes, int]) -> DataFrame:
    """Return the rows with the number of buckets of their partitions, which is 1 for those not in `counts`."""
    numbers = set(counts.values())
    if not table.schema.partition_keys:
        return frame.withColumn(BUCKETS, f.lit(next(iter(numbers), 1)))
    if not numbers - {1}:
        return frame.withColumn(BUCKETS, f.lit(1))
    fields = table.schema.partition_fields
    values = [table.partition_values(p) for p in counts]
    names = [f"_partition_{i}_" for i in range(len(fields))]
    columns = [pa.concat_arrays([constant_column(v[i], c.type, 1) for v in values]) for i, c in enumerate(fields)]
    batch = batch_for_spark(pa.record_batch([*columns, pa.array(counts.values(), pa.int32())], names=[*names, BUCKETS]))
    renamed = [replace(c, name=n) for c, n in zip(fields, names, strict=True)]
    schema = StructType.fromJson(plain_struct(renamed)).add(BUCKETS, IntegerType())
    small = arrow_frame(session, pa.Table.from_batches([batch]), schema)
    if any(isinstance(c.type, AtomicType) and c.type.root in _FLOATS for c in fields):
        small = small.dropDuplicates(names)  # 0.0 and -0.0 are two partitions, but one value in a join
    condition = f.lit(True)  # noqa: FBT003 - a SQL literal
    for c, n in zip(fields, names, strict=True):
        condition &= frame[quoted_name(c.name)].eqNullSafe(small[n])
    joined = frame.join(f.broadcast(small), condition, "left")
    count = f.coalesce(small[BUCKETS], f.lit(1)).alias(BUCKETS)
    return joined.select(*(frame[quoted_name(c)] for c in frame.columns), count)

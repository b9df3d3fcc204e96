"""The rows of a cross-partition upsert: joined with the keys of the table by one shuffle, and sorted by key.

(docs/spec/semantics.md, B3)
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark.core.columns import BUCKET, EXISTING_BUCKET, SHUFFLE_HASH, SHUFFLE_ORDER
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.cross_partition import recent_splits
from paimon_spark.engine.insert import WritePlan
from paimon_spark.spark.jvm_frames import arrow_batches, bucket_shuffle
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spark.shuffle_spec import HashColumn, ShuffleSpec, hashed_fields
from paimon_spark.spark.store_assignment import padded
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.quoted_text import quoted_name


def keyed_rows(session: SparkSession, plan: WritePlan, frame: DataFrame, order: Column | None) -> DataFrame:
    """Return the rows to write with the existing rows of the table, packed for `worker.keyed_writer`.

    Of existing rows, only the primary key, the partition and the bucket are read. A key is in one task, its existing
    row first, then its new rows in their order.
    """
    table = plan.table
    fields = tuple(table.schema.field(k) for k in table.schema.primary_keys)
    rows = frame.withColumn(EXISTING_BUCKET, f.lit(None).cast("int"))
    rows = rows.withColumn(SHUFFLE_ORDER, f.monotonically_increasing_id())
    splits = () if plan.overwrite is not None else recent_splits(table, plan.snapshot_id)
    if splits:
        rows = rows.unionByName(_existing(session, table, splits, rows))
    key = HashColumn(SHUFFLE_HASH, 0, hashed_fields(fields))
    assigners = plan.info.assigners
    spec = ShuffleSpec(tuple(table.schema.field_names), hash=key, tasks=assigners, classes=assigners)
    by = [f.col(SHUFFLE_HASH), *(f.col(quoted_name(c.name)) for c in fields), f.col(EXISTING_BUCKET).asc_nulls_last()]
    own = [] if order is None else [order]
    placed = bucket_shuffle(rows, spec).sortWithinPartitions(*by, *own, f.col(SHUFFLE_ORDER))
    return arrow_batches(placed.drop(SHUFFLE_ORDER))


def _existing(session: SparkSession, table: Table, splits: tuple[Split, ...], like: DataFrame) -> DataFrame:
    """Return the rows of the table with the columns of `like`; columns that are not needed are null."""
    needed = {*table.schema.primary_keys, *table.schema.partition_keys}
    keys = {c: table.schema.field(c) for c in needed if c not in table.schema.partition_keys}
    columns = tuple(c for c in table.schema.field_names if c in needed)
    found = read_frame(session, ReadRequest(table, columns, TRUE, splits, metadata=(BUCKET,)))
    out = []
    for field in like.schema.fields:
        if field.name == EXISTING_BUCKET:
            value = f.col(BUCKET)
        elif field.name in needed:
            value = f.col(quoted_name(field.name)).cast(field.dataType)
            value = padded(value, keys[field.name]) if field.name in keys else value
        else:
            value = f.lit(None).cast(field.dataType)
        out.append(value.alias(field.name))
    return found.select(*out)

"""Rows whose bucket key is a default value: their bucket is that of the default, whatever was computed before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.buckets.fixed_buckets import fixed_buckets
from paimon_spark.core.columns import SHUFFLE_BUCKET
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.insert import WritePlan, complete_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.spec.predicate import Comparison, InList, IsNull
from paimon_spark.testing.tables import new_table
from tests.small_tables import at_next_schema, frame, rows, sorted_rows


def table_with_default() -> Table:
    table = new_table({"k": "STRING", "v": "INT"}, options={"bucket": "8", "bucket-key": "k"})
    key, value = table.schema.fields
    return at_next_schema(table, fields=(replace(key, default_value="none"), value))


def write_shuffled(table: Table, *given: tuple[str | None, int], bucket_of_null: bool = False, **how: bool) -> None:
    """Write rows as a shuffle hands them on: with buckets of the values that the statement gave."""
    batch = frame(table, given)
    buckets = fixed_buckets(table, frame(table, [(None, 0)] * len(given)) if bucket_of_null else batch)
    with TableWriter(table, WriterRestoreState(), **how) as writer:
        writer.write(batch.append_column(SHUFFLE_BUCKET, pa.array(buckets.astype(np.int32))))
        messages = writer.finish()
    complete_write(WritePlan(table=table, info=WriterRestoreState()), messages, LocalRunner())


def test_defaults_are_in_their_bucket() -> None:
    table = table_with_default()
    write_shuffled(table, (None, 1), ("a", 2), (None, 3))
    assert rows(table, Comparison("=", "k", "none")) == [("none", 1), ("none", 3)]
    assert rows(table, Comparison("=", "k", "a")) == [("a", 2)]


def test_stored_nulls_keep_their_bucket() -> None:
    table = table_with_default()
    write_shuffled(table, (None, 1), fill_defaults=False)
    assert rows(table, IsNull("k")) == [(None, 1)]
    assert rows(table, Comparison("<=>", "k", None)) == [(None, 1)]


def test_other_writers_take_the_bucket_of_null() -> None:
    table = table_with_default()
    write_shuffled(table, ("none", 1), fill_defaults=False, bucket_of_null=True)
    write_shuffled(table, (None, 2))
    assert sorted_rows(table, predicate=Comparison("=", "k", "none")) == [("none", 1), ("none", 2)]
    assert sorted_rows(table, predicate=InList("k", ("none", "a"))) == [("none", 1), ("none", 2)]

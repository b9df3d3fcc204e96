"""Writes to tables whose keys move between partitions: existing keys and new rows are sorted in this process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.buckets.bucket_hash import hash_rows
from paimon_spark.core.columns import BUCKET, EXISTING_BUCKET, ROW_KIND, SHUFFLE_HASH, reserved
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.table import Table
from paimon_spark.core.write.cross_partition import CrossPartitionWriter
from paimon_spark.engine.insert import WriteResult, complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import RowKind

_ORDER = reserved("_order_")


def write_moving(
    table: Table, rows: pa.Table, kind: RowKind = RowKind.INSERT, *, overwrite: bool = False
) -> WriteResult:
    """Write rows of one kind to a table with cross-partition upsert, and commit them.

    Args:
        table: the table.
        rows: rows with all columns of the table.
        kind: the kind of all rows.
        overwrite: replace all rows of the table.
    """
    plan = plan_write(table, overwrite="static" if overwrite else None)
    schema = to_arrow_schema(table.schema.fields)
    new = rows.select(schema.names).cast(schema)
    together = _with_system_columns(new, pa.nulls(new.num_rows, pa.int32()), kind)
    if not overwrite:
        together = pa.concat_tables([*_existing(table, schema), together])
    together = together.append_column(_ORDER, pa.array(np.arange(together.num_rows)))
    keys = [(k, "ascending") for k in (*table.schema.primary_keys, _ORDER)]
    together = together.append_column(SHUFFLE_HASH, pa.array(hash_rows(together, table.key_fields), pa.int32()))
    with CrossPartitionWriter(table, plan.info) as writer:
        for batch in together.sort_by(keys).drop_columns([_ORDER]).to_batches():
            writer.write(batch)
        messages = writer.finish()
    return complete_write(plan, messages, LocalRunner())


def _existing(table: Table, schema: pa.Schema) -> list[pa.Table]:
    """Return the rows of the table with their buckets."""
    plan = plan_select(table)
    found = []
    for split in plan.splits:
        for batch in read_split(table, split, metadata_columns=(BUCKET,)):
            whole = pa.Table.from_batches([batch])
            rows = whole.select(schema.names).cast(schema)
            found.append(_with_system_columns(rows, whole.column(BUCKET), RowKind.INSERT))
    return found


def _with_system_columns(rows: pa.Table, buckets: Sequence[int] | pa.ChunkedArray, kind: RowKind) -> pa.Table:
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows)
    return rows.append_column(ROW_KIND, kinds).append_column(EXISTING_BUCKET, buckets)

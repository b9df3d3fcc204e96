"""Rows to write to a table with cross-partition upsert in this process: joined with the table's own keys and sorted.

All new rows, and the keys of the table with their partitions and buckets, are in memory at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.buckets.bucket_hash import hash_rows
from paimon_spark.core.char_values import padded_columns
from paimon_spark.core.columns import BUCKET, EXISTING_BUCKET, ROW_KIND, SHUFFLE_HASH, reserved
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.core.write.row_conversion import Rows, WriteRules, prepare_batch
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.base import DEFAULT_BATCH_ROWS
from paimon_spark.spec.predicate import AlwaysTrue, Predicate

_ORDER = reserved("_order_")


def recent_splits(table: Table, snapshot_id: int | None) -> tuple[Split, ...]:
    """Return the splits of all rows, without those whose files are too old for the index of keys."""
    if snapshot_id is None:
        return ()
    splits = plan_splits(table, scan(table, table.snapshots.get(snapshot_id)))
    ttl = table.options.cross_partition_index_ttl_ms
    if ttl is None:
        return tuple(splits)
    oldest = wall_clock_millis(int(time.time() * 1000)) - ttl
    return tuple(s for s in splits if any((x.creation_time or 0) >= oldest for x in s.files))


def check_overwrite(table: Table, overwrite: str | None, partitions: Predicate | None) -> None:
    """Reject overwrites of single partitions: keys of the new rows may be in others.

    Raises:
        UnsupportedError: the overwrite is dynamic, or of `partitions`.
    """
    if overwrite == "dynamic" or (partitions is not None and not isinstance(partitions, AlwaysTrue)):
        raise UnsupportedError(
            f"INSERT OVERWRITE cannot replace single partitions of table {table.name}: its primary key does not "
            "contain the partition columns, so keys of the new rows may be in other partitions.",
            hint="Overwrite the whole table, or DELETE the partitions and INSERT the rows.",
        )


def with_existing_keys(
    table: Table, snapshot_id: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the input rows of `CrossPartitionWriter`: by key, the stored row first, then new ones in order.

    Args:
        table: the table.
        snapshot_id: the state that the rows are written to; None to ignore stored rows.
        batches: rows with all columns of the table, optionally with `ROW_KIND` (int8).
    """
    rules = WriteRules.of(table)
    given = [_new(prepare_batch(b, rules), rules) for b in batches if b.num_rows]
    if not given:
        return
    both = pa.concat_tables([_existing(table, snapshot_id, given[0].schema), *given]).combine_chunks()
    keys = tuple(table.schema.field(k) for k in table.schema.primary_keys)
    both = padded_columns(both, [f for f in keys if f.name not in table.schema.partition_keys])
    both = both.append_column(SHUFFLE_HASH, pa.array(hash_rows(both, keys)))
    both = both.append_column(_ORDER, pa.array(np.arange(both.num_rows)))
    by = [SHUFFLE_HASH, *table.schema.primary_keys, EXISTING_BUCKET, _ORDER]  # 0.0 and -0.0 are equal to a sort
    order = pc.sort_indices(both, sort_keys=[(name, "ascending") for name in by])
    yield from both.drop_columns([_ORDER]).take(order).to_batches(max_chunksize=DEFAULT_BATCH_ROWS)


def _new(rows: Rows, rules: WriteRules) -> pa.Table:
    marked = rows.columns
    if rules.kind_column is None:
        marked = marked.append_column(ROW_KIND, pa.array(rows.kinds, pa.int8()))
    return marked.append_column(EXISTING_BUCKET, pa.nulls(rows.count, pa.int32()))


def _existing(table: Table, snapshot_id: int | None, like: pa.Schema) -> pa.Table:
    """Return the keys of the table with their partitions and buckets, and nulls in the other columns of `like`."""
    names = [n for n in table.schema.field_names if n in {*table.schema.primary_keys, *table.schema.partition_keys}]
    fields = to_arrow_schema(table.schema.field(n) for n in names)
    schema = pa.schema([*fields, pa.field(BUCKET, pa.int32())])
    splits = recent_splits(table, snapshot_id)
    found = [b for s in splits for b in read_split(table, s, names, metadata_columns=(BUCKET,))]
    rows = pa.Table.from_batches(found, schema=found[0].schema) if found else schema.empty_table()
    columns = {n: rows.column(n) for n in names} | {EXISTING_BUCKET: rows.column(BUCKET).cast(pa.int32())}
    empty = {f.name: pa.nulls(rows.num_rows, f.type) for f in like if f.name not in columns}
    return pa.table([{**columns, **empty}[f.name].cast(f.type) for f in like], names=like.names)

"""Preparation of batches for writing: counting, adding missing columns, and setting row kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from paimon_spark.core.char_values import padded_columns
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR, reserved
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import with_values
from paimon_spark.engine.select import SelectPlan
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.merge_rules import removing_sequence

_PLACE = (FILE_PATH, ROW_INDEX, VECTOR)
_AT = reserved("_at_")


class RowCounter:
    """Iterates over batches and counts their rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def of_kind(batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    """Return a batch with the same row kind for all rows."""
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], names=[*batch.schema.names, ROW_KIND])


def add_missing_columns(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """Return a batch with all columns of a table in order; missing columns are null."""
    schema = to_arrow_schema(table.schema.fields)
    names = set(batch.schema.names)
    columns = [batch.column(f.name) if f.name in names else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


class Removals:
    """Iterates over batches of rows to delete as ``-D`` rows.

    Raises:
        UnsupportedError: merging would not remove a row, because its sequence is null; then `refused` is true.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], table: Table, hint: str = "") -> None:
        self._batches = batches
        self._table = table
        self._sequence = removing_sequence(table.schema, table.options)
        self._hint = hint
        self.refused = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._sequence and not with_values(batch, self._sequence).all():
                self.refused = True
                raise UnsupportedError(
                    f"A row of table {self._table.name} cannot be changed by merging: the sequence "
                    f"({', '.join(self._sequence)}) of a row to delete is null.",
                    hint=self._hint,
                )
            yield of_kind(batch, RowKind.DELETE)


def deletions(plan: SelectPlan) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan with their positions in files, as delete batches for `change_arrow`."""
    for split in plan.splits:
        for batch in read_split(plan.table, split, plan.columns, plan.predicate, metadata_columns=_PLACE):
            yield of_kind(batch, RowKind.DELETE)


def deletions_of_keys(plan: SelectPlan, keys: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan whose key columns are those of a row of `keys`, as `deletions` does."""
    names = keys.column_names
    fields = [plan.table.schema.field(n) for n in names]
    keys = padded_columns(keys, fields)
    for batch in deletions(plan):
        own = padded_columns(pa.Table.from_batches([batch.select(names)]), fields)
        own = own.append_column(_AT, pa.array(np.arange(batch.num_rows, dtype=np.int64)))
        found = own.join(keys, names, join_type="left semi").column(_AT)
        if len(found):
            yield batch.take(found.combine_chunks().sort())

"""Sorts the rows of a bucket by a clustering in one process: sorted runs on the local disk, merged in chunks.

Each row gets columns that compare like its place in the order, and that never have nulls: its position on the curve, or
for each column whether it has a value, and the value in comparable form. They are not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.columns import reserved
from paimon_spark.core.compact.clustering import clusters_writes, table_clustering
from paimon_spark.core.compact.space_filling_curves import hilbert_keys, zorder_keys
from paimon_spark.core.merge.keys import Column, null_first_columns
from paimon_spark.core.merge.sort_merge import overlapping_slices
from paimon_spark.core.spill.space import Run, SpillRules, SpillSpace, local_directories
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

_LARGEST_PIECE = 4 << 20


def clustered_rows(table: Table, batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterable[pa.RecordBatch | pa.Table]:
    """Yield the rows of a write: in order, if the table is clustered and its writes are to be, else as they are.

    Args:
        table: the table.
        batches: rows as `TableWriter.write` takes them.

    Raises:
        UsageError: see `TableWriter.write`.
        EngineError: the local disk cannot be used.
    """
    if not clusters_writes(table):
        return batches
    rules = WriteRules.of(table)
    return ClusterSorter(table).sorted(prepare_batch(batch, rules).columns for batch in batches)


class ClusterSorter:
    """Sorts rows of a clustered table with bounded memory."""

    def __init__(self, table: Table) -> None:
        self._clustering = table_clustering(table)
        self._fields = [table.schema.field(name) for name in self._clustering.columns]
        self._text_bytes = table.options.number("zorder.var-length-contribution")
        none = pa.Table.from_batches([], to_arrow_schema(self._fields))
        self._places = [_place(i, column) for i, column in enumerate(self._columns(none))]
        self._buffer = table.options.write_buffer_size
        rules = SpillRules.of(table.options, self._buffer)
        self._space = None if rules is None else SpillSpace(rules, local_directories())

    def sorted(self, chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows of `chunks` in order, in tables of a few MB.

        All rows are sorted in memory if the table does not allow spilling, and those that the spill space has no room
        for.

        Raises:
            EngineError: the local disk cannot be used.
        """
        try:
            spilled, waiting = self._collect(chunks)
            for rows in self._merged(spilled, waiting):
                yield rows.drop_columns([f.name for f in self._places])
        finally:
            if self._space is not None:
                self._space.close()

    def _collect(self, chunks: Iterable[pa.Table]) -> tuple[list[Run], list[pa.Table]]:
        """Return the sorted runs on disk, and those in memory."""
        budget = (self._buffer if self._space is None else self._space.rules.buffer) // 2
        spilled: list[Run] = []
        kept: list[pa.Table] = []
        waiting: list[pa.Table] = []
        size = 0
        for rows in chunks:
            checkpoint()
            waiting.append(self._placed(rows))
            size += waiting[-1].nbytes
            if self._space is not None and size > budget:
                run = self._ordered(waiting)
                waiting, size = [], 0
                stored = self._space.write(_pieces(run))
                if stored is None:
                    kept.append(run)
                else:
                    spilled.append(stored)
        return spilled, [*kept, *([self._ordered(waiting)] if waiting else [])]

    def _merged(self, spilled: list[Run], kept: Sequence[pa.Table]) -> Iterator[pa.Table]:
        if self._space is None or not spilled:
            yield from self._merge([_pieces(run) for run in kept])
            return
        space = self._space
        while len(spilled) > space.rules.fan_in:
            few = spilled[: space.rules.fan_in]
            joined = space.write(self._merge([space.read(run) for run in few]))
            if joined is None:
                break
            space.drop(few)
            spilled = [*spilled[len(few) :], joined]
        yield from self._merge([*(space.read(run) for run in spilled), *map(_pieces, kept)])

    def _merge(self, runs: Sequence[Iterator[pa.Table]]) -> Iterator[pa.Table]:
        for slices in overlapping_slices(runs, self._places):
            parts = [s.rows for s in slices]
            yield parts[0] if len(parts) == 1 else self._ordered(parts)

    def _ordered(self, parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts).combine_chunks()
        return rows.take(pc.sort_indices(rows, sort_keys=[(f.name, "ascending") for f in self._places]))

    def _placed(self, rows: pa.Table) -> pa.Table:
        """Return the rows with the columns that compare like their places in the order."""
        for field, column in zip(self._places, self._columns(rows), strict=True):
            rows = rows.append_column(field.name, pa.array(column) if isinstance(column, np.ndarray) else column)
        return rows

    def _columns(self, rows: pa.Table) -> list[Column]:
        order = self._clustering.order
        if order is Order.ORDER:
            return null_first_columns(rows, self._fields)
        through = [one_chunk(rows.column(f.name)) for f in self._fields]
        return [zorder_keys(through, self._text_bytes) if order is Order.ZORDER else hilbert_keys(through)]


def _place(i: int, column: Column) -> DataField:
    root = TypeRoot.BIGINT if isinstance(column, np.ndarray) else TypeRoot.VARBINARY
    return DataField(-1 - i, reserved(f"_place_{i}_"), AtomicType(root, nullable=False))


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield sorted rows in tables of a few MB."""
    step = max(1, _LARGEST_PIECE * rows.num_rows // max(1, rows.nbytes))
    return (rows.slice(at, step) for at in range(0, rows.num_rows, step))

"""Sorts the rows of a bucket by a clustering in one process: sorted runs on the local disk, merged in chunks.

Each row gets columns that compare like its place in the order, and that never have nulls: its position on the curve, or
for each column whether it has a value, and the value in comparable form. They are not stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.compact.clustering import clusters_writes, table_clustering
from paimon_spark.core.compact.space_filling_curves import hilbert_keys, zorder_keys
from paimon_spark.core.merge.keys import comparable_columns
from paimon_spark.core.spill.space import Run, SpillRules, SpillSpace, local_directories
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.types import DataField

_KEY = "__place_{}__"
_LARGEST_PIECE = 4 << 20
Key = tuple[Any, ...]


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
                yield rows.drop_columns(_names(rows))
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
            waiting.append(self._keyed(rows))
            size += waiting[-1].nbytes
            if self._space is not None and size > budget:
                run = _sorted(waiting)
                waiting, size = [], 0
                stored = self._space.write(_pieces(run))
                if stored is None:
                    kept.append(run)
                else:
                    spilled.append(stored)
        return spilled, [*kept, *([_sorted(waiting)] if waiting else [])]

    def _merged(self, spilled: list[Run], kept: Sequence[pa.Table]) -> Iterator[pa.Table]:
        if self._space is None or not spilled:
            yield from _merge([_pieces(run) for run in kept])
            return
        space = self._space
        while len(spilled) > space.rules.fan_in:
            few = spilled[: space.rules.fan_in]
            joined = space.write(_merge([space.read(run) for run in few]))
            if joined is None:
                break
            space.drop(few)
            spilled = [*spilled[len(few) :], joined]
        yield from _merge([*(space.read(run) for run in spilled), *map(_pieces, kept)])

    def _keyed(self, rows: pa.Table) -> pa.Table:
        """Return the rows with the columns that compare like their places in the order."""
        for i, key in enumerate(self._keys(rows)):
            rows = rows.append_column(_KEY.format(i), key)
        return rows

    def _keys(self, rows: pa.Table) -> Iterator[pa.Array]:
        order = self._clustering.order
        if order is Order.ORDER:
            for field in self._fields:
                yield from _comparable(rows, field)
            return
        through = [one_chunk(rows.column(f.name)) for f in self._fields]
        yield zorder_keys(through, self._text_bytes) if order is Order.ZORDER else hilbert_keys(through)


def _comparable(rows: pa.Table, field: DataField) -> Iterator[pa.Array]:
    """Yield whether a column has a value, and the value as numbers or bytes; nulls come first."""
    column = one_chunk(rows.column(field.name))
    present = pc.is_valid(column)
    yield present.cast(pa.uint8())
    for part in comparable_columns(rows, [field]):
        plain = part if isinstance(part, pa.Array) else pa.array(part)
        zero = b"" if isinstance(part, pa.Array) else 0
        yield pc.if_else(present, plain, pa.scalar(zero, plain.type)) if column.null_count else plain


def _names(rows: pa.Table) -> list[str]:
    """Return the columns that `ClusterSorter` has added: the last ones."""
    count = 0
    while _KEY.format(count) in rows.column_names:
        count += 1
    return [_KEY.format(i) for i in range(count)]


def _sorted(parts: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts).combine_chunks()
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in _names(rows)]))


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield sorted rows in tables of a few MB."""
    step = max(1, _LARGEST_PIECE * rows.num_rows // max(1, rows.nbytes))
    return (rows.slice(at, step) for at in range(0, rows.num_rows, step))


class _Head:
    """The rows of a sorted run that are loaded and not yet merged."""

    def __init__(self, chunks: Iterator[pa.Table]) -> None:
        self._chunks = chunks
        self._rows = pa.table({})
        self._at = 0
        self._keys: list[pa.ChunkedArray] = []

    def load(self) -> bool:
        """Load the next chunk unless rows are left; return whether there are any."""
        while self._at >= self._rows.num_rows:
            rows = next(self._chunks, None)
            if rows is None:
                return False
            self._rows, self._at = rows, 0
            self._keys = [rows.column(name) for name in _names(rows)]
        return True

    @property
    def last(self) -> Key:
        """Return the place of the last loaded row."""
        return self._place(self._rows.num_rows - 1)

    def take(self, bound: Key) -> pa.Table:
        """Return the loaded rows up to a place, and leave the others."""
        start = self._at
        self._at = bisect_right(range(self._rows.num_rows), bound, lo=start, key=self._place)
        return self._rows.slice(start, self._at - start)

    def _place(self, i: int) -> Key:
        return tuple(column[i].as_py() for column in self._keys)


def _merge(runs: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Merge sorted runs; each step yields the rows up to the first place at which a run has no loaded rows left."""
    live = [head for head in map(_Head, runs) if head.load()]
    while len(live) > 1:
        bound = min(head.last for head in live)
        yield _sorted([head.take(bound) for head in live])
        live = [head for head in live if head.load()]
    while live and live[0].load():
        yield live[0].take(live[0].last)

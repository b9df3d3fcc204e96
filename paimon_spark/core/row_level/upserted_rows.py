"""The rows of an upsert: which new rows remain, and which stored rows they replace.

Keys are equal if all their columns are, nulls and NaN included. Of new rows with a key, the one with the largest
sequence remains, and it replaces a stored row only if its sequence is not smaller. Sequence fields are compared one
after the other, nulls first. Without sequence fields, all new rows remain.

(docs/spec/semantics.md, D8)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.char_values import padded
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, VECTOR, reserved
from paimon_spark.core.merge.keys import Column, key_order, null_first_columns, sequence_codes
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, UsageError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.types import DataField, TypeRoot, has_root, is_ordered

PLACE = (FILE_PATH, ROW_INDEX, VECTOR)
"""The columns with the place of a row that is replaced."""
_PLACE_TYPES = (pa.string(), pa.int64(), pa.int64())
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_INEXACT = (*_FLOATS, TypeRoot.CHAR)
"""The types of which different values may be equal keys."""
_FEWEST = 1 << 20
"""Minimum number of stored rows that are looked up at once."""
_AT, _ROW = map(reserved, ("_at_", "_row_"))


@dataclass(frozen=True, slots=True)
class UpsertRules:
    """How new rows replace rows of a table.

    Attributes:
        key: the columns that identify a row.
        sequence: the columns that order the rows of a key, most significant first.
        ties: the other columns with an order, and those whose equal values may have different bytes; of new rows with
            an equal sequence, the largest by these remains.
        changed: the columns in which a new row may differ from the one that it replaces.
        moves: whether a new row may belong to another bucket than the row that it replaces.
    """

    key: tuple[DataField, ...]
    sequence: tuple[DataField, ...]
    ties: tuple[DataField, ...]
    changed: tuple[str, ...]
    moves: bool

    @classmethod
    def of(cls, table: Table) -> UpsertRules:
        """Return the rules of a table."""
        schema, options = table.schema, table.options
        named = {*options.upsert_key, *options.sequence_field}
        ties = [f for f in schema.fields if f.name not in named and is_ordered(f.type)]
        ties += [f for f in schema.fields if f.name in named and has_root(f.type, _INEXACT)]
        return cls(
            tuple(map(schema.field, options.upsert_key)),
            tuple(map(schema.field, options.sequence_field)),
            tuple(ties),
            tuple(f.name for f in schema.fields if f.name not in options.upsert_key or has_root(f.type, _INEXACT)),
            _moves(table),
        )

    @property
    def compared(self) -> tuple[DataField, ...]:
        """Return the columns of stored rows that are read."""
        return tuple({f.name: f for f in (*self.key, *self.sequence)}.values())


@dataclass(frozen=True)
class NewRows:
    """The new rows of an upsert.

    Attributes:
        table: the table's name, for errors.
        rules: see there.
        rows: at least one row, with all columns of the table.
    """

    table: str
    rules: UpsertRules
    rows: pa.Table

    @cached_property
    def groups(self) -> I64:
        """Return the number of the key of each row."""
        order, fresh = key_order(_key_columns(self.rows, self.rules))
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.cumsum(fresh) - 1
        return group

    def newest(self) -> NewRows:
        """Return the row with the largest sequence of each key, in their order; all rows without sequence fields."""
        rules, groups = self.rules, self.groups
        if not rules.sequence or int(groups.max()) + 1 == len(groups):
            return self
        codes = sequence_codes(_normal(self.rows, rules.sequence), rules.sequence, descending=False)
        codes += sequence_codes(self.rows, rules.ties, descending=False)
        order = np.lexsort([*reversed(codes), groups])
        ordered = groups[order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        return NewRows(self.table, rules, self.rows.take(pa.array(np.sort(order[last]))))

    def replacements(self, stored: Iterable[pa.RecordBatch]) -> Replacements:
        """Return which stored rows are replaced.

        Args:
            stored: rows with the columns `UpsertRules.compared` and `PLACE`.

        Raises:
            UsageError: several rows would replace the same row.
        """
        found = self._matches(stored)
        at = values_of(one_chunk(found.column(_ROW)))
        fresh = np.ones(self.rows.num_rows, dtype=np.bool_)
        fresh[at] = False
        if self.rules.sequence:
            keep = ~_older(self.rows.take(pa.array(at)), found, self.rules)
            found, at = found.filter(pa.array(keep)), at[keep]
        elif (np.bincount(self.groups)[self.groups[at]] > 1).any():
            raise ambiguous(self.table, self.rules)
        order = pc.sort_indices(found, sort_keys=[(FILE_PATH, "ascending"), (ROW_INDEX, "ascending")])
        places = found.select(PLACE).take(order)
        return Replacements(self.rows.filter(pa.array(fresh)), self.rows.take(pa.array(at).take(order)), places)

    def _matches(self, stored: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return the stored rows with the key of a new row, and the number of the new row."""
        wanted = _join_table(self.rows, self.rules, _ROW)
        parts = [_joined(part, wanted, self.rules) for part in _pieces(stored, max(_FEWEST, self.rows.num_rows))]
        if parts:
            return pa.concat_tables(parts)
        places = [pa.field(name, of) for name, of in zip(PLACE, _PLACE_TYPES, strict=True)]
        schema = pa.schema([*to_arrow_schema(self.rules.compared), *places, pa.field(_ROW, pa.int64())])
        return schema.empty_table()


@dataclass(frozen=True, slots=True)
class Replacements:
    """The effect of an upsert: rows to add, and rows that replace those at `places`, by file and position."""

    added: pa.Table
    replacing: pa.Table
    places: pa.Table


def upserts(table: Table) -> bool:
    """Return whether an INSERT into the table replaces rows by their `upsert-key`."""
    return bool(table.options.upsert_key) and not table.is_primary_key_table


def ambiguous(table: str, rules: UpsertRules) -> UsageError:
    """Return the error for several new rows that replace the same row of a table."""
    return UsageError(
        f"Several of the new rows would replace the same row of table {table}, whose 'upsert-key' is "
        f"{','.join(f.name for f in rules.key)}.",
        hint="Make the new rows unique in these columns, for example with GROUP BY, or set 'sequence.field' to the "
        "columns that tell which of them is the newest.",
        kind=ErrorKind.MERGE_CARDINALITY_VIOLATION,
    )


def no_places(count: int) -> list[pa.Array]:
    """Return the columns `PLACE` of new rows."""
    return [pa.nulls(count, of) for of in _PLACE_TYPES]


def _moves(table: Table) -> bool:
    if table.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return False
    routing = (*table.schema.partition_fields, *table.bucket_key_fields)
    return any(f.name not in table.options.upsert_key or has_root(f.type, _INEXACT) for f in routing)


def _normal(rows: pa.Table, fields: Sequence[DataField]) -> pa.Table:
    """Return columns whose equal values have equal bytes: CHAR padded, and zeros without a sign."""
    columns = {}
    for f in fields:
        column = one_chunk(rows.column(f.name))
        if has_root(f.type, _FLOATS):
            column = pc.add(column, pa.scalar(0.0, column.type))
        columns[f.name] = padded(column, f.type)
    return pa.table(columns)


def _key_columns(rows: pa.Table, rules: UpsertRules) -> list[Column]:
    """Return columns without nulls that are equal where the keys are."""
    columns = null_first_columns(_normal(rows, rules.key), rules.key)
    return [c if isinstance(c, np.ndarray) else c.cast(pa.large_binary()) for c in columns]


def _older(new: pa.Table, stored: pa.Table, rules: UpsertRules) -> Mask:
    """Return which new rows have a smaller sequence than the stored ones beside them."""
    names = [f.name for f in rules.sequence]
    ours = new.select(names)
    both = _normal(pa.concat_tables([ours, stored.select(names).cast(ours.schema)]), rules.sequence)
    older = np.zeros(new.num_rows, dtype=np.bool_)
    for codes in reversed(sequence_codes(both, rules.sequence, descending=False)):
        here, there = codes[: new.num_rows], codes[new.num_rows :]
        older = (here < there) | ((here == there) & older)
    return older


def _pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the batches in tables of at least `rows` rows, except for the last one."""
    held, count = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _joined(stored: pa.Table, wanted: pa.Table, rules: UpsertRules) -> pa.Table:
    here = _join_table(stored, rules, _AT)
    keys = [n for n in here.column_names if n != _AT]
    pairs = here.join(wanted, keys, join_type="inner").select([_AT, _ROW]).combine_chunks()
    return stored.take(pairs.column(_AT)).append_column(_ROW, pairs.column(_ROW))


def _join_table(rows: pa.Table, rules: UpsertRules, number: str) -> pa.Table:
    columns = {f"k{i}": c for i, c in enumerate(_key_columns(rows, rules))}
    return pa.table({**columns, number: pa.array(np.arange(rows.num_rows, dtype=np.int64))})

"""Aggregate functions of nested tables, which are arrays of rows: rows appended, or updated by a nested key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.elements import (
    Cells,
    Elements,
    counts_of,
    elements_of,
    has_value,
    list_array,
    ordinals,
    winners,
)
from paimon_spark.core.merge.aggregates.inputs import Inputs, in_fold_order
from paimon_spark.core.merge.aggregates.stepwise import by_keys, first_input, one_after_another, untouched
from paimon_spark.core.merge.aggregates.value_codes import row_codes, valid_mask, value_codes
from paimon_spark.core.merge.keys import dense_ranks, sequence_codes
from paimon_spark.errors import ErrorKind, PaimonError
from paimon_spark.format.arrays import I32, I64, Mask
from paimon_spark.spec.aggregates import MERGE_NULLS, REFUSE_NULLS, AggregateOptions
from paimon_spark.spec.types import ArrayType, DataField, RowType


class _NestedTable(ABC):
    """Base of the functions: the rows of the inputs that count, their nested keys, and the result as a column."""

    def __init__(self, field: DataField, options: AggregateOptions) -> None:
        if not isinstance(field.type, ArrayType) or not isinstance(field.type.element, RowType):
            raise TypeError(field.name)
        self._name = field.name
        self._members = {f.name: f for f in field.type.element.fields}
        self._key = options.nested_key
        self._null_strategy = options.nested_key_null_strategy

    def __call__(self, inputs: Inputs) -> pa.Array:
        """Return the nested table of each key; null if all inputs are null.

        Raises:
            PaimonError: a nested key has a null, and 'nested-key-null-strategy' is 'error'.
        """
        return by_keys(inputs, untouched(inputs), first_input, self._changed)

    @abstractmethod
    def _changed(self, inputs: Inputs) -> pa.Array:
        """Return the nested table of each key that has several inputs, or one that counts differently by itself."""

    def _rows(self, inputs: Inputs) -> tuple[Elements, pa.Array]:
        """Return the rows of the inputs without null rows, and without rows whose nested key does not count."""
        elements = elements_of(inputs)
        rows = elements.of(inputs.column.values)
        counts = valid_mask(rows) & self._counting_keys(rows)
        return (elements, rows) if counts.all() else (elements.where(counts), rows.filter(pa.array(counts)))

    def _counting_keys(self, rows: pa.Array) -> Mask:
        complete = np.ones(len(rows), dtype=np.bool_)
        if not self._key or self._null_strategy == MERGE_NULLS:
            return complete
        for name in self._key:
            complete &= valid_mask(rows.field(name))
        if self._null_strategy == REFUSE_NULLS and not complete[valid_mask(rows)].all():
            raise PaimonError(
                f"The column '{self._name}' has a row with a null in its nested key ({', '.join(self._key)}).",
                hint=f"Set 'fields.{self._name}.nested-key-null-strategy' to 'ignore' or 'merge'.",
                kind=ErrorKind.NOT_NULL_VIOLATION,
            )
        return complete

    def _codes(self, rows: pa.Array) -> I32:
        """Return the codes of nested keys, or of whole rows if there is none."""
        return row_codes([value_codes(rows.field(name)) for name in self._key]) if self._key else value_codes(rows)

    def _column(self, inputs: Inputs, keys: I64, rows: pa.Array) -> pa.Array:
        return list_array(inputs.column.type, counts_of(keys, len(inputs.starts)), rows, has_value(inputs))


class NestedUpdate(_NestedTable):
    """Appends rows, or replaces those of equal nested key if their nested sequence is not larger.

    A retract removes the rows of its nested keys, or all rows that are equal to its own. New rows are accepted while
    there are fewer than the limit.
    """

    def __init__(self, field: DataField, options: AggregateOptions) -> None:
        super().__init__(field, options)
        self._sequence = tuple(self._members[name] for name in options.nested_sequence)
        self._limit = options.count_limit

    def _changed(self, inputs: Inputs) -> pa.Array:
        return by_keys(inputs, self._steps(inputs), lambda part: one_after_another(part, self._step), self._merged)

    def _step(self, inputs: Inputs) -> pa.Array:
        return by_keys(inputs, untouched(inputs), first_input, self._merged)

    def _steps(self, inputs: Inputs) -> Mask:
        """Return the keys that reach the limit, and whose rows in between decide which ones are accepted later."""
        none = np.zeros(len(inputs.starts), dtype=np.bool_)
        changing = inputs.retracted | inputs.delayed if self._key else inputs.retracted
        if not changing.any():
            return none
        elements = elements_of(inputs)
        full = counts_of(elements.keys, len(inputs.starts)) > self._limit
        return full & np.logical_or.reduceat(changing, inputs.starts)

    def _merged(self, inputs: Inputs) -> pa.Array:
        elements, rows = self._rows(inputs)
        kept = self._updated(elements, rows) if self._key else self._appended(elements, rows)
        return self._column(inputs, elements.keys[kept], rows.take(pa.array(kept)))

    def _appended(self, elements: Elements, rows: pa.Array) -> I64:
        """Return the rows that are left without a nested key."""
        alive = np.ones(len(elements), dtype=np.bool_)
        if elements.retracted.any():
            alive = ~elements.retracted & Cells(elements.keys, self._codes(rows)).after_last(elements.retracted)
        kept = np.argsort(elements.fold_rank)
        kept = kept[alive[kept]]
        if self._limit >= len(elements):
            return kept
        keys = elements.keys[kept]
        n = len(elements.inputs.starts)
        limits = np.maximum(counts_of(elements.keys[alive & self._leads(elements)], n), self._limit)
        return kept[ordinals(keys, counts_of(keys, n)) < limits[keys]]

    def _updated(self, elements: Elements, rows: pa.Array) -> I64:
        """Return the row that each nested key is left with."""
        cells = Cells(elements.keys, self._codes(rows))
        alive = ~elements.retracted & cells.after_last(elements.retracted)
        kept = winners(cells, alive, elements.fold_rank, self._preference(rows))
        if self._limit >= len(elements):
            return kept
        keys = elements.keys[kept]
        leading = np.zeros(len(cells), dtype=np.bool_)
        leading[cells.of[alive & self._leads(elements)]] = True
        within = ordinals(keys, counts_of(keys, len(elements.inputs.starts))) < self._limit
        return kept[within | leading[cells.of[kept]]]

    def _preference(self, rows: pa.Array) -> I64 | None:
        if not self._sequence:
            return None
        table = pa.table({f.name: rows.field(f.name) for f in self._sequence})
        return dense_ranks(sequence_codes(table, self._sequence, descending=False))

    def _leads(self, elements: Elements) -> Mask:
        """Return the rows that the limit does not hold for: those of the last late input, else of the preset one."""
        inputs = elements.inputs
        leading = np.full(len(inputs.starts), -1, dtype=np.int64)
        if inputs.preset is not None:
            leading = inputs.last_where(inputs.preset)
        if inputs.late is not None:
            late = inputs.last_where(inputs.late & ~inputs.retracted)
            leading = np.where(late < 0, leading, late)
        return elements.owner == leading[elements.keys]


class NestedPartialUpdate(_NestedTable):
    """Merges the rows of equal nested key: the last value of each member that is not null."""

    def _changed(self, inputs: Inputs) -> pa.Array:
        elements, rows = self._rows(in_fold_order(inputs))
        cells = Cells(elements.keys, self._codes(rows))
        order = np.arange(len(elements), dtype=np.int64)
        first = winners(cells, np.ones(len(order), dtype=np.bool_), order, first=True)
        places = cells.of[first]
        members = [_last_values(rows.field(i), cells, places) for i in range(rows.type.num_fields)]
        merged = pa.StructArray.from_arrays(members, fields=_fields(rows.type))
        return self._column(inputs, elements.keys[first], merged)


def _last_values(member: pa.Array, cells: Cells, places: I64) -> pa.Array:
    last = cells.last_where(valid_mask(member))[places]
    return member.take(pa.array(last, mask=last < 0))


def _fields(t: pa.DataType) -> Sequence[pa.Field]:
    return [t.field(i) for i in range(t.num_fields)]

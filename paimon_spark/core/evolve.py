"""Columns of a file as the table sees them today: renamed, reordered, added, dropped and retyped ones (storage 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.merge.keys import one_chunk
from paimon_spark.core.values import constant_column
from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType, TypeRoot, type_to_json

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MISSING = object()
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Which fields to read from one file, and how each wanted column comes of them."""

    physical: tuple[DataField, ...]
    wanted: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    constants: Mapping[str, Any]

    @property
    def straight(self) -> bool:
        """Return whether names and types of the file are those of the table."""
        return all(s is None or (s.name == w.name and s.type == w.type) for w, s in zip(self.wanted, self.sources))  # noqa: B905

    def apply(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the wanted columns of `rows`, which holds the physical ones."""
        n = rows.num_rows
        columns = [self._column(rows, w, s, n) for w, s in zip(self.wanted, self.sources, strict=True)]
        return pa.Table.from_arrays(columns, names=[w.name for w in self.wanted])

    def _column(self, rows: pa.Table | pa.RecordBatch, wanted: DataField, source: DataField | None, n: int) -> pa.Array:
        constant = self.constants.get(wanted.name, _MISSING)
        if constant is not _MISSING:
            return constant_column(constant, wanted.type, n)
        if source is None:
            return pa.nulls(n, to_arrow_type(wanted.type))
        column = rows.column(source.name)
        if source.type == wanted.type:
            arrow = to_arrow_type(wanted.type)
            return column if column.type == arrow else column.cast(arrow)
        return convert(one_chunk(column), source.type, wanted.type)


def plan_columns(
    wanted: Sequence[DataField], file_fields: Sequence[DataField], constants: Mapping[str, Any]
) -> ColumnPlan:
    """Return how to get `wanted` from a file written with `file_fields`; `constants` hold partition values by name."""
    by_id = {f.id: f for f in file_fields}
    sources = tuple(None if w.name in constants else by_id.get(w.id) for w in wanted)
    physical = tuple({s.id: s for s in sources if s is not None}.values())
    return ColumnPlan(physical, tuple(wanted), sources, constants)


def convert(column: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Return a column as another type, the way a column type change asks for.

    Raises:
        UnsupportedError: the change is not one that Paimon allows.
        CorruptTableError: a value cannot be read as the new type.
    """
    if column.offset and not isinstance(source, AtomicType):
        column = pa.concat_arrays([column.slice(0, 0), column])
    if isinstance(source, RowType) and isinstance(target, RowType):
        return _convert_struct(column, source, target)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        values = convert(column.values, source.element, target.element)
        return pa.ListArray.from_arrays(column.offsets, values, type=to_arrow_type(target), mask=_nulls(column))
    if isinstance(source, MapType) and isinstance(target, MapType):
        items = convert(column.items, source.value, target.value)
        keys = convert(column.keys, source.key, target.key)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=to_arrow_type(target), mask=_nulls(column))
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        raise UnsupportedError(
            f"A column of type {type_to_json(source)} cannot be read as {type_to_json(target)}.",
            hint="Change the column type back, or rewrite the table.",
        )
    try:
        return _convert_atomic(column, source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise CorruptTableError(
            f"Values of type {type_to_json(source)} in an older file cannot be read as {type_to_json(target)}: {e}.",
            hint="Change the column type back.",
        ) from e


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _convert_struct(column: pa.Array, source: RowType, target: RowType) -> pa.Array:
    by_id = {f.id: (i, f) for i, f in enumerate(source.fields)}
    members = []
    for f in target.fields:
        at = by_id.get(f.id)
        if at is None:
            members.append(pa.nulls(len(column), to_arrow_type(f.type)))
        else:
            members.append(convert(pc.struct_field(column, [at[0]]), at[1].type, f.type))
    return pa.StructArray.from_arrays(members, fields=list(to_arrow_type(target)), mask=_nulls(column))


def _convert_atomic(column: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    arrow = to_arrow_type(target)
    if source.root in _TEXTS and target.root in _TEXTS:
        shrinks = (target.length or 0) < (source.length or 0)
        return pc.utf8_slice_codeunits(column, 0, target.length) if shrinks else column.cast(arrow)
    if target.root in _TEXTS:
        return pc.utf8_slice_codeunits(_as_text(column, source), 0, target.length)
    if source.root in _TEXTS and target.root is TypeRoot.BOOLEAN:
        found = pc.is_in(pc.utf8_lower(column), value_set=pa.array(["true", "t", "yes", "y", "1"]))
        return pc.if_else(column.is_valid(), found, None)
    if pa.types.is_decimal(arrow) and pa.types.is_floating(column.type):
        return column.cast(pa.float64()).cast(arrow, safe=False)
    if pa.types.is_decimal(arrow) and pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(_MAX_PRECISION, arrow.scale))
    return column.cast(arrow, safe=source.root in _TEXTS)


def _as_text(column: pa.Array, source: AtomicType) -> pa.Array:
    if source.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        text = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())
        return text if source.precision else pc.utf8_slice_codeunits(text, 0, 19)
    return column.cast(pa.string())

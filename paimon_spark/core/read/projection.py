"""Projection of file columns to the table's current schema: renamed, reordered, added, dropped and retyped columns.

(docs/spec/storage.md, section 11; docs/spec/semantics.md, H7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import constant_column, one_chunk
from paimon_spark.core.casts.atomic import cast
from paimon_spark.core.casts.nested_text import text_of
from paimon_spark.core.casts.times import UTC
from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.casts import can_change
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    not_null,
    type_to_json,
)

_MISSING = object()


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The fields to read from a file, and how each requested column is derived from them."""

    physical: tuple[DataField, ...]
    wanted: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    constants: Mapping[str, Any]
    zone: str = UTC

    def apply(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the requested columns from `rows`, which holds the physical ones."""
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
        return convert(one_chunk(column), source.type, wanted.type, self.zone)


def plan_columns(
    wanted: Sequence[DataField], file_fields: Sequence[DataField], constants: Mapping[str, Any], zone: str = UTC
) -> ColumnPlan:
    """Return the plan to derive columns of a table from one of its files.

    Args:
        wanted: requested columns.
        file_fields: columns of the schema that the file was written with.
        constants: partition values by name.
        zone: time zone for casts between timestamps with and without one.
    """
    by_id = {f.id: f for f in file_fields}
    sources = tuple(None if w.name in constants else by_id.get(w.id) for w in wanted)
    physical = tuple({s.id: s for s in sources if s is not None}.values())
    return ColumnPlan(physical, tuple(wanted), sources, constants, zone)


def convert(column: pa.Array, source: DataType, target: DataType, zone: str = UTC) -> pa.Array:
    """Return a column cast to its current type after a column type change.

    Nullability is not checked on read: the column may have been made NOT NULL after its type was changed.

    Args:
        column: values of the type `source`.
        source: type of the values.
        target: current type of the column.
        zone: time zone for casts between timestamps with and without one.

    Raises:
        UnsupportedError: Paimon does not allow the type change.
        CorruptTableError: a value cannot be converted to the new type.
    """
    if not_null(source) == not_null(target):
        arrow = to_arrow_type(target)
        return column if column.type == arrow else column.cast(arrow)
    if column.offset and not isinstance(source, AtomicType):
        column = pa.concat_arrays([column.slice(0, 0), column])
    if isinstance(source, RowType) and isinstance(target, RowType):
        return _convert_struct(column, source, target, zone)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        values = convert(column.values, source.element, target.element, zone)
        return pa.ListArray.from_arrays(column.offsets, values, type=to_arrow_type(target), mask=_nulls(column))
    if isinstance(source, MapType) and isinstance(target, MapType):
        items = convert(column.items, source.value, target.value, zone)
        keys = convert(column.keys, source.key, target.key, zone)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=to_arrow_type(target), mask=_nulls(column))
    if not isinstance(target, AtomicType) or not can_change(source, replace(target, nullable=True), explicit=True):
        raise UnsupportedError(
            f"A column of type {type_to_json(source)} cannot be read as {type_to_json(target)}.",
            hint="Change the column type back, or rewrite the table.",
        )
    try:
        return cast(column, source, target, zone) if isinstance(source, AtomicType) else text_of(column, source, zone)
    except (ValueError, pa.ArrowNotImplementedError) as e:
        raise CorruptTableError(
            f"Values of type {type_to_json(source)} in an older file cannot be read as {type_to_json(target)}: {e}.",
            hint="Change the column type back.",
        ) from e


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _convert_struct(column: pa.Array, source: RowType, target: RowType, zone: str) -> pa.Array:
    by_id = {f.id: (i, f) for i, f in enumerate(source.fields)}
    members = []
    for f in target.fields:
        at = by_id.get(f.id)
        if at is None:
            members.append(pa.nulls(len(column), to_arrow_type(f.type)))
        else:
            members.append(convert(pc.struct_field(column, [at[0]]), at[1].type, f.type, zone))
    return pa.StructArray.from_arrays(members, fields=list(to_arrow_type(target)), mask=_nulls(column))

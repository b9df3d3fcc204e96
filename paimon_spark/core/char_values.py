"""CHAR values in the form in which they are compared, and keys are written: with the blanks that fill their length.

Spark writes the blanks, other writers what they are given, and readers of ORC files take them away. Values that differ
in trailing blanks only are equal. Partitions keep the values that they are named by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot


def is_char(t: DataType) -> TypeGuard[AtomicType]:
    """Return whether a type is CHAR."""
    return isinstance(t, AtomicType) and t.root is TypeRoot.CHAR


def padded(column: pa.Array, t: DataType) -> pa.Array:
    """Return the values of a column with the blanks that fill their length, if its type is CHAR.

    Values need not be UTF-8. Trailing blanks of values that are too long are removed.
    """
    if not is_char(t):
        return column
    length = t.length or 1
    if pc.all(pc.equal(pc.utf8_length(column), length), skip_nulls=True).as_py():
        return column
    trimmed = pc.ascii_rtrim(column, characters=" ")
    missing = pc.max_element_wise(pc.subtract(length, pc.utf8_length(trimmed)), 0, skip_nulls=False)
    blanks = pc.binary_repeat(pa.scalar(" ", column.type), missing)
    return pc.binary_join_element_wise(trimmed, blanks, pa.scalar("", column.type))


def padded_columns(rows: pa.Table, fields: Sequence[DataField]) -> pa.Table:
    """Return rows with the values of those of `fields` that are CHAR padded."""
    for f in fields:
        if is_char(f.type):
            i = rows.schema.get_field_index(f.name)
            column = rows.column(i)
            chunks = [padded(c, f.type) for c in column.chunks]
            rows = rows.set_column(i, rows.schema.field(i), pa.chunked_array(chunks, column.type))
    return rows


def padded_value(value: Any, t: DataType) -> Any:
    """Return one value with the blanks that fill its length, if its type is CHAR."""
    return value.rstrip(" ").ljust(t.length or 1) if value is not None and is_char(t) else value

"""Between Arrow cells and the values of binary rows: single values, constant columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot, atomic_text

_RAW = (TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_LIMIT = 1 << 63
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def value_at(column: pa.Array | pa.ChunkedArray, i: int, t: DataType) -> Any:
    """Return one cell of a column of Arrow type ``to_arrow_type(t)`` as a value of a binary row."""
    scalar = column[i]
    if not scalar.is_valid:
        return None
    root = t.root if isinstance(t, AtomicType) else None
    if root in _RAW:
        return scalar.value
    if root in _TIMESTAMPS:
        per = _PER_MILLI[scalar.type.unit]
        millis, rest = divmod(scalar.value, per)
        return Timestamp(millis, rest * 1_000_000 // per)
    return scalar.as_py()


def row_at(rows: pa.Table, fields: Sequence[DataField], i: int) -> tuple[Any, ...]:
    """Return the values of `fields` in row `i`."""
    return tuple(value_at(rows.column(f.name), i, f.type) for f in fields)


def arrow_scalar(value: Any, t: DataType) -> pa.Scalar:
    """Return a value of a binary row as an Arrow scalar of the column's type.

    Raises:
        UnsupportedError: a time is too far from 1970 to be counted in the column's unit.
    """
    arrow = to_arrow_type(t)
    if value is None:
        return pa.scalar(None, arrow)
    if isinstance(value, Timestamp) and isinstance(t, AtomicType):
        per = _PER_MILLI[arrow.unit]
        units = value.millis * per + value.nano_of_milli * per // 1_000_000
        if not -_LIMIT <= units < _LIMIT:
            raise UnsupportedError(
                f"The time {value.millis} ms after 1970 is out of the range of {atomic_text(t)} in memory.",
                hint="Nanoseconds reach from 1677 to 2262. Read the other rows, or write the column as TIMESTAMP(6).",
            )
        return pa.scalar(units, pa.int64()).cast(arrow)
    if isinstance(t, AtomicType) and t.root in _RAW:
        return pa.scalar(value, pa.int32()).cast(arrow)
    return pa.scalar(value, arrow)


def constant_column(value: Any, t: DataType, n: int) -> pa.Array:
    """Return a column that holds one value `n` times."""
    if value is None:
        return pa.nulls(n, to_arrow_type(t))
    return pa.repeat(arrow_scalar(value, t), n)

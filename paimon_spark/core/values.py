"""Between Arrow cells and the values of binary rows: single values, constant columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

_RAW = (TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
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
    """Return a value of a binary row as an Arrow scalar of the column's type."""
    arrow = to_arrow_type(t)
    if value is None:
        return pa.scalar(None, arrow)
    if isinstance(value, Timestamp):
        per = _PER_MILLI[arrow.unit]
        return pa.scalar(value.millis * per + value.nano_of_milli * per // 1_000_000, pa.int64()).cast(arrow)
    if isinstance(t, AtomicType) and t.root in _RAW:
        return pa.scalar(value, pa.int32()).cast(arrow)
    return pa.scalar(value, arrow)


def constant_column(value: Any, t: DataType, n: int) -> pa.Array:
    """Return a column that holds one value `n` times."""
    if value is None:
        return pa.nulls(n, to_arrow_type(t))
    return pa.repeat(arrow_scalar(value, t), n)

"""Dispatch of casts between atomic types."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.core.casts import from_text, numbers, times, to_text
from paimon_spark.core.casts.times import UTC
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import AtomicType, TypeRoot

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def cast(column: pa.Array, source: AtomicType, target: AtomicType, zone: str = UTC) -> pa.Array:
    """Return a column cast to another type; `spec.casts.can_change` defines the supported casts.

    Args:
        column: values of Arrow type ``to_arrow_type(source)``.
        source: type of the values.
        target: type to cast to.
        zone: time zone for casts between timestamps with and without one.

    Raises:
        ValueError: a value cannot be converted to the new type.
    """
    arrow = to_arrow_type(target)
    if target.root in _TEXTS:
        return _to_text(column, source, target, zone)
    if target.root in _BYTES:
        return from_text.to_binary(column, target)
    if source.root in _TEXTS:
        return _from_text(column, target, arrow, zone)
    if target.root in _STAMPS:
        return times.to_timestamp(column, source, target, zone)
    if target.root is TypeRoot.DATE:
        return times.to_date(column, source, zone)
    if target.root is TypeRoot.TIME:
        return times.to_time(column, source, zone) if source.root in _STAMPS else column
    if target.root is TypeRoot.BOOLEAN:
        return column.cast(arrow)
    if source.root in _STAMPS:
        return times.to_seconds(column, arrow)
    return _to_number(column, target, arrow)


def _to_text(column: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    if source.root in _BYTES:
        return column.cast(pa.string())  # of any length: readers do not truncate it
    if source.root is TypeRoot.DATE:
        return to_text.date_text(column)
    if source.root is TypeRoot.TIME:
        return to_text.time_text(column, source.precision or 0)
    if source.root in _STAMPS:
        return to_text.timestamp_text(column, source, zone)
    if source.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        text = to_text.float_text(column)
    elif source.root is TypeRoot.DECIMAL:
        text = numbers.decimal_text(column)
    else:
        text = column.cast(pa.string())
    return to_text.fitted(text, target)


def _from_text(column: pa.Array, target: AtomicType, arrow: pa.DataType, zone: str) -> pa.Array:
    if target.root is TypeRoot.BOOLEAN:
        return from_text.to_boolean(column)
    if target.root is TypeRoot.DATE:
        return from_text.to_date(column)
    if target.root is TypeRoot.TIME:
        return from_text.to_time(column)
    if target.root in _STAMPS:
        return from_text.to_timestamp(column, target, zone)
    if target.root is TypeRoot.DECIMAL:
        return numbers.decimal_of_text(column, arrow.precision, arrow.scale)
    if pa.types.is_floating(arrow):
        return from_text.to_float(column, arrow)
    return from_text.to_integer(column, arrow)


def _to_number(column: pa.Array, target: AtomicType, arrow: pa.DataType) -> pa.Array:
    if target.root is TypeRoot.DECIMAL:
        return numbers.to_decimal(column, arrow.precision, arrow.scale)
    if pa.types.is_floating(arrow):
        return numbers.to_float(column, arrow)
    return numbers.to_integer(column, arrow)

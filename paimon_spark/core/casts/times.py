"""Casts between dates, times, timestamps and seconds since the epoch.

As in Paimon, a cast from a timestamp without time zone to a date, to seconds or to a coarser timestamp truncates
towards 1970, so a timestamp before 1970 may be rounded up to the next day or second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import values_of
from paimon_spark.core.casts.cells import from_numpy, valid_mask
from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import AtomicType, TypeRoot

MILLIS_PER_DAY = 86_400_000
UTC = "UTC"
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_NANOS = 1_000_000
_MILLI_DIGITS = 3
_NANO_DIGITS = 9


def split_timestamps(column: pa.Array) -> tuple[I64, I64]:
    """Return the epoch milliseconds of timestamps and the nanoseconds within them; zeros for nulls."""
    per = _PER_MILLI[column.type.unit]
    values = np.where(valid_mask(column), values_of(column), 0)
    millis = values // per
    return millis, (values - millis * per) * (_NANOS // per)


def timestamps_of(millis: I64, nanos: I64, target: AtomicType, like: pa.Array) -> pa.Array:
    """Return milliseconds and nanoseconds as timestamps, null where `like` is.

    Raises:
        ValueError: a timestamp is out of range of the precision.
    """
    arrow = to_arrow_type(target)
    per = _PER_MILLI[arrow.unit]
    most = np.iinfo(np.int64).max // per
    if per > 1 and bool(((millis >= most) | (millis <= -most)).any()):
        raise ValueError(f"a timestamp is out of range for a precision of {target.precision} digits")
    return from_numpy(millis * per + nanos // (_NANOS // per), arrow, like)


def days_and_millis(millis: I64) -> tuple[I64, I64]:
    """Return the days since 1970 and the milliseconds of the day."""
    days = millis // MILLIS_PER_DAY
    return days, millis - days * MILLIS_PER_DAY


def towards_zero(values: I64, unit: int) -> I64:
    """Return the quotient truncated towards zero, as in Java."""
    return np.sign(values) * (np.abs(values) // unit)


def _fixed(zone: str) -> int | None:
    """Return the fixed UTC offset of a zone in milliseconds; None for a region."""
    if zone == UTC:
        return 0
    if zone[0] not in "+-":
        return None
    parts = [int(part) for part in zone[1:].split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return (-seconds if zone[0] == "-" else seconds) * 1000


def local_millis(millis: I64, zone: str) -> I64:
    """Return the local time in `zone` of each instant."""
    if (shift := _fixed(zone)) is not None:
        return millis + shift
    instants = pa.array(millis).view(pa.timestamp("ms")).cast(pa.timestamp("ms", zone))
    return values_of(pc.local_timestamp(instants))


def instant_millis(local: I64, zone: str) -> I64:
    """Return the instant of each local time in `zone`; the earlier one if it is ambiguous.

    A local time in a DST gap is interpreted with the offset before the transition.
    """
    if (shift := _fixed(zone)) is not None:
        return local - shift
    wall = pa.array(local).view(pa.timestamp("ms"))
    before = values_of(pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="earliest"))
    return local - (local_millis(before, zone) - before)


def to_date(column: pa.Array, source: AtomicType, zone: str) -> pa.Array:
    """Return timestamps as dates."""
    millis, _ = split_timestamps(column)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        days, _ = days_and_millis(local_millis(millis, zone))
    else:
        days = towards_zero(millis, MILLIS_PER_DAY)
    return from_numpy(days.astype(np.int32), pa.date32(), column)


def to_time(column: pa.Array, source: AtomicType, zone: str) -> pa.Array:
    """Return timestamps as times of day."""
    millis, _ = split_timestamps(column)
    _, of_day = days_and_millis(local_millis(millis, zone) if source.root is TypeRoot.TIMESTAMP_LTZ else millis)
    return from_numpy(of_day.astype(np.int32), pa.time32("ms"), column)


def to_seconds(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return timestamps as seconds since 1970."""
    millis, _ = split_timestamps(column)
    return from_numpy(towards_zero(millis, 1000).astype(arrow.to_pandas_dtype()), arrow, column)


def to_timestamp(column: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Return dates, times of day, timestamps or seconds since 1970 as timestamps."""
    zoned = target.root is TypeRoot.TIMESTAMP_LTZ
    if source.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _between_timestamps(column, source, target, zone)
    values = values_of(column.fill_null(0)).astype(np.int64)
    if source.root is TypeRoot.DATE:
        millis = values * MILLIS_PER_DAY
        millis = instant_millis(millis, zone) if zoned else millis
    elif source.root is TypeRoot.TIME:
        millis = values
    else:
        with np.errstate(over="ignore"):
            millis = values * 1000
        millis = local_millis(millis, zone) if zoned else millis  # the local time there, not the instant
    return timestamps_of(millis, np.zeros(len(column), dtype=np.int64), target, column)


def _between_timestamps(column: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    millis, nanos = split_timestamps(column)
    if source.root is not target.root:
        millis = (instant_millis if target.root is TypeRoot.TIMESTAMP_LTZ else local_millis)(millis, zone)
    digits = target.precision or 0
    if (source.precision or 0) > digits:
        millis, nanos = _coarser(millis, nanos, digits)
    return timestamps_of(millis, nanos, target, column)


def _coarser(millis: I64, nanos: I64, digits: int) -> tuple[I64, I64]:
    if digits <= _MILLI_DIGITS:
        unit = 10 ** (_MILLI_DIGITS - digits)
        exact = (nanos == 0) & (millis % unit == 0)
        return np.where(exact, millis, towards_zero(millis, unit) * unit), np.zeros_like(nanos)
    unit = 10 ** (_NANO_DIGITS - digits)
    return millis, nanos // unit * unit

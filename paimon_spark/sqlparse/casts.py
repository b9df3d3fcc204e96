"""Casts of statement text and literals to column values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spec.literals import parse_value
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.time_zones import time_zone
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, atomic_text

_WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_NUMBERS = (*_WHOLE, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)
_DIGITS = 40
"""More digits than any type has: a longer number is not expanded."""
_EPOCH = datetime(1970, 1, 1)
_ZONED = re.compile(r"(\S+[ T][\d:.]+) ?([^\s\d:.].*)")


def cast_text(text: str, t: DataType, *, zone: tzinfo, parameter: str) -> Any:
    """Return the value of type `t` that `text` denotes, as a value of `spec.rows`.

    An instant (TIMESTAMP WITH LOCAL TIME ZONE) is local time in the zone that it ends with (``+01:00``), or in `zone`.

    Raises:
        ArgumentError: the text does not denote one; `parameter` is the argument name for the message.
    """
    is_instant = isinstance(t, AtomicType) and t.root is TypeRoot.TIMESTAMP_LTZ
    zoned = _ZONED.fullmatch(text.strip()) if is_instant else None
    try:
        if zoned is not None:
            text, zone = zoned[1], time_zone(zoned[2])
        value = parse_value(text, t)
    except ArgumentError as e:
        raise ArgumentError(f"In the argument '{parameter}': {e.message}", hint=e.hint, kind=e.kind) from None
    except ValueError as e:
        raise ArgumentError(
            f"In the argument '{parameter}': in '{text}', {e}.", hint="Write a zone as +01:00 or Europe/Paris."
        ) from None
    return _instant(value, zone) if is_instant else value


def cast_number(number: Decimal, t: DataType, *, zone: tzinfo, parameter: str) -> Any:
    """Return `number` as a value of type `t`.

    Raises:
        ArgumentError: the type is not numeric, or the number is out of range.
    """
    root = t.root if isinstance(t, AtomicType) else None
    if root not in _NUMBERS:
        name = atomic_text(t) if isinstance(t, AtomicType) else "a constructed type"
        raise ArgumentError(
            f"In the argument '{parameter}': the number {number} is compared with a column of type {name}.",
            hint="Write the value in quotes, as the column stores it.",
            kind=ErrorKind.TYPE_MISMATCH,
        )
    whole = root in _WHOLE and number.adjusted() < _DIGITS and number == number.to_integral_value()
    return cast_text(str(int(number)) if whole else str(number), t, zone=zone, parameter=parameter)


def timestamp_millis(text: str, *, zone: tzinfo, parameter: str) -> int:
    """Return the epoch milliseconds of ``yyyy-MM-dd[ HH:mm:ss[.SSS]]`` as local time in `zone`.

    Raises:
        ArgumentError: `text` is not a timestamp.
    """
    t = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3)
    stamp: Timestamp = cast_text(text.strip(), t, zone=zone, parameter=parameter)
    return stamp.millis


def _instant(wall: Timestamp, zone: tzinfo) -> Timestamp:
    local = _EPOCH + timedelta(milliseconds=wall.millis)
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
    return Timestamp(wall.millis - offset // timedelta(milliseconds=1), wall.nano_of_milli)


def local_time(instant: Timestamp, zone: tzinfo) -> Timestamp:
    """Return the wall-clock time of an instant in a time zone."""
    at = (_EPOCH + timedelta(milliseconds=instant.millis)).replace(tzinfo=UTC).astimezone(zone)
    offset = at.utcoffset() or timedelta()
    return Timestamp(instant.millis + offset // timedelta(milliseconds=1), instant.nano_of_milli)

"""Conversion of values to text and back: partition directories, partition strings, default values.

The values are those of `spec.rows` (docs/spec/storage.md, section 1.2).
"""

from __future__ import annotations

import math
import re
import struct
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

from paimon_spark.errors import ArgumentError, ErrorKind, UnsupportedError
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, atomic_text

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS, _LAST_PLAIN_YEAR = 400, 146_097, 9999
_DAY_MILLIS = 86_400_000
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_RANGES = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
_TIME = re.compile(r"^(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?$")
_STAMP = re.compile(r"^(\d{4,}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?$")
_EXACT = Context(prec=200)
"""Precise enough for every DECIMAL and for every exact value of a FLOAT."""
_WORDS = {"true": True, "false": False}


def value_text(value: Any, t: DataType, *, legacy: bool = True) -> str:
    """Return the text of a non-null value in the name of a partition directory, before escaping.

    `legacy` is the option ``partition.legacy-name``: dates as epoch days, times as milliseconds,
    timestamps as ISO text.

    Raises:
        UnsupportedError: values of this type have no text in partition names.
    """
    if not isinstance(t, AtomicType) or t.root in (TypeRoot.VARIANT, TypeRoot.BLOB):
        raise UnsupportedError("A column of a constructed type cannot be a partition column.")
    if t.root is TypeRoot.BOOLEAN:
        return "true" if value else "false"
    if t.root in _TEXTS:
        return str(value)
    if t.root in _FLOATS:
        return java_float(value, single=t.root is TypeRoot.FLOAT)
    if t.root is TypeRoot.DECIMAL:
        return f"{value:.{t.scale or 0}f}"
    if t.root in _BINARIES:
        if legacy:
            raise UnsupportedError(
                "A binary column cannot be a partition column while 'partition.legacy-name' is true.",
                hint="Partition by a string column instead.",
            )
        return bytes(value).decode(errors="replace")
    if t.root is TypeRoot.DATE and not legacy:
        return date_text(value)
    if t.root is TypeRoot.TIME and not legacy:
        return time_text(value, t.precision or 0)
    if t.root in _STAMPS:
        return timestamp_text(value) if legacy else timestamp_text(value, digits=t.precision or 0, separator=" ")
    return str(value)


def date_text(day: int) -> str:
    """Return an epoch day as ``yyyy-MM-dd``; years before 0 and after 9999 have a sign, as in Java."""
    cycle, rest = divmod(day + _EPOCH_DAY - 1, _CYCLE_DAYS)
    same = date.fromordinal(rest + 1)
    year = same.year + cycle * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > _LAST_PLAIN_YEAR else ""
    return f"{sign}{abs(year):04}-{same.month:02}-{same.day:02}"


def time_text(millis: int, digits: int) -> str:
    """Return the millisecond of a day as ``HH:mm:ss``, with a fraction of at least one and at most `digits` digits."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f"{rest:03}"[:digits].rstrip("0") or "0"
    return f"{text}.{fraction}" if digits else text


def timestamp_text(value: Timestamp, *, digits: int | None = None, separator: str = "T") -> str:
    """Return the wall-clock time of a timestamp.

    Without `digits`, the format is that of Java's ``LocalDateTime``: no seconds if they and the fraction are zero,
    otherwise a fraction of 0, 3, 6 or 9 digits.
    """
    day, millis = divmod(value.millis, _DAY_MILLIS)
    fraction = f"{millis % 1000 * 1_000_000 + value.nano_of_milli:09}"
    head = date_text(day) + separator
    if digits is not None:
        clock = time_text(millis, 0)
        return head + (f"{clock}.{fraction[:digits]}" if digits else clock)
    if millis % 60_000 == 0 and value.nano_of_milli == 0:
        return head + time_text(millis, 0)[:5]
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    clock = time_text(millis, 0)
    return head + (f"{clock}.{fraction}" if fraction else clock)


def java_float(value: float, *, single: bool) -> str:
    """Return a floating point number as Java prints it: ``1.0``, ``1.0E10``, ``NaN``.

    `core.casts.to_text.float_text` does the same for a whole column.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(_shortest(value, single=single)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    if value == 0:
        body = "0.0"
    elif not -2 <= point <= 7:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    elif point <= 0:
        body = f"0.{'0' * -point}{text}"
    else:
        body = f"{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return "-" + body if sign else body


def to_single(value: float) -> float:
    """Return the value that a FLOAT column stores for a number."""
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single


def _shortest(value: float, *, single: bool) -> str:
    """Return the decimal text that Java prints: of the shortest that read back as `value`, the closest to it.

    Java prefers two digits over one if that is closer, which matters for subnormal numbers.
    """
    if not single:
        two = f"{value:.1e}"
        return two if float(two) == value else repr(value)
    low, high, closed = _read_as_single(abs(value))
    exact = Decimal(value)
    for digits in range(2, 10):
        step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
        near = [exact.quantize(step, way, _EXACT) for way in (ROUND_FLOOR, ROUND_CEILING)]
        found = [d for d in near if low < abs(d) < high or (closed and abs(d) in (low, high))]
        if found:
            return str(min(found, key=lambda d: (abs(_EXACT.subtract(d, exact)), d.as_tuple().digits[-1] % 2)))
    return repr(value)


def _read_as_single(value: float) -> tuple[Decimal, Decimal, bool]:
    """Return the interval of numbers that round to a finite single-precision `value`, and whether it is closed."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    below, above = (struct.unpack("<f", struct.pack("<I", max(b, 0)))[0] for b in (bits - 1, bits + 1))
    above = value + (value - below) if math.isinf(above) else above
    return Decimal((below + value) / 2), Decimal((value + above) / 2), bits % 2 == 0


def parse_value(text: str, t: DataType) -> Any:
    """Parse a text as a value of type `t`.

    Dates are accepted as ``yyyy-MM-dd`` and as epoch days, timestamps with a blank or a ``T``.

    Raises:
        ArgumentError: the text is not a value of the type.
    """
    if not isinstance(t, AtomicType) or t.root in (TypeRoot.VARIANT, TypeRoot.BLOB):
        raise ArgumentError("Only values of simple types can be written as text.", kind=ErrorKind.TYPE_MISMATCH)
    if t.root in _TEXTS:
        return text
    try:
        return _parse(text.strip(), t)
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        raise ArgumentError(
            f"'{text}' is not a value of type {atomic_text(t)}.", hint=_example(t.root), kind=ErrorKind.TYPE_MISMATCH
        ) from None


def _parse(text: str, t: AtomicType) -> Any:
    if "_" in text and t.root not in _BINARIES:
        raise ValueError(text)
    if t.root in _RANGES:
        number = int(text)
        if not -(1 << _RANGES[t.root]) <= number < 1 << _RANGES[t.root]:
            raise ValueError(text)
        return number
    if t.root is TypeRoot.BOOLEAN:
        return _WORDS[text.lower()]
    if t.root is TypeRoot.DOUBLE:
        return float(text)
    if t.root is TypeRoot.FLOAT:
        return to_single(float(text))
    if t.root is TypeRoot.DECIMAL:
        return _parse_decimal(text, t)
    if t.root is TypeRoot.DATE:
        by_number = re.fullmatch(r"-?\d{1,7}", text) is not None
        day = date.fromordinal(int(text) + _EPOCH_DAY) if by_number else date.fromisoformat(text)
        return day.toordinal() - _EPOCH_DAY
    if t.root is TypeRoot.TIME:
        return int(text) if text.isdigit() else _parse_clock(text)[0]
    if t.root in _STAMPS:
        return _parse_stamp(text)
    return bytes.fromhex(text[2:]) if text.lower().startswith("0x") else text.encode()


def _parse_decimal(text: str, t: AtomicType) -> Decimal:
    number = Decimal(text)
    rounded = number.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_EXACT) if number.is_finite() else None
    if rounded is None or rounded != number or len(rounded.as_tuple().digits) > (t.precision or 10):
        raise ValueError(text)
    return rounded


def _parse_clock(text: str) -> tuple[int, int]:
    m = _TIME.match(text)
    if not m:
        raise ValueError(text)
    hour, minute, second = int(m[1]), int(m[2]), int(m[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    nanos = int((m[4] or "").ljust(9, "0"))
    return ((hour * 60 + minute) * 60 + second) * 1000 + nanos // 1_000_000, nanos % 1_000_000


def _parse_stamp(text: str) -> Timestamp:
    m = _STAMP.match(text)
    if not m:
        raise ValueError(text)
    year, month, day = map(int, m[1].split("-"))
    millis, nanos = _parse_clock(m[2]) if m[2] else (0, 0)
    return Timestamp((date(year, month, day).toordinal() - _EPOCH_DAY) * _DAY_MILLIS + millis, nanos)


def _example(root: TypeRoot) -> str:
    examples = {
        TypeRoot.BOOLEAN: "Write true or false.",
        TypeRoot.DATE: "Write a date as 2024-05-14.",
        TypeRoot.TIME: "Write a time as 12:34:56.",
        TypeRoot.TIMESTAMP: "Write a timestamp as 2024-05-14 10:20:30.",
        TypeRoot.TIMESTAMP_LTZ: "Write a timestamp as 2024-05-14 10:20:30.",
    }
    return examples.get(root, "Write a number that fits the type.")

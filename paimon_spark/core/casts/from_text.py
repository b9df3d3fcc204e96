"""Casts from text. Text that does not denote a value of the new type is an error, never null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.casts.cells import BLANKS, from_numpy, parsed, refuse, valid_mask, whole_numbers
from paimon_spark.core.casts.times import MILLIS_PER_DAY, instant_millis, timestamps_of
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.types import AtomicType, TypeRoot

_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_DIGITS = r"^-?[0-9]+$"
_INTEGER = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.[0-9]*)?$"
_FLOAT = (
    rf"^{BLANKS}(?P<sign>[+-]?)(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    rf"|(?P<word>NaN|Infinity)){BLANKS}$"
)


def _number(name: str) -> str:
    return rf"{BLANKS}(?P<{name}>[0-9]{{1,9}}){BLANKS}"


_DATE = rf"^{_number('year')}(?:-{_number('month')}(?:-{_number('day')})?)?$"
_TIME = (
    rf"^{_number('hour')}(?::{_number('minute')}(?::{_number('second')}(?:\.{BLANKS}(?P<fraction>[^-+:]*))?)?)?"
    rf"(?:(?P<side>[+-]){_number('hours')}(?P<exact>:{_number('minutes')})?)?$"
)
_STAMP = (
    r"^(?P<year>[0-9]{4}|\+[0-9]{5,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,9}))?)?$"
)
_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_LAST_YEAR = 9999
_PER_SECOND = {0: 1, 3: 10**3, 6: 10**6, 9: 10**9}


def to_boolean(column: pa.Array) -> pa.Array:
    """Return texts such as `yes` and `0` as booleans."""
    lower = pc.utf8_lower(column)
    true = pc.is_in(lower, value_set=pa.array(_TRUE))
    refuse(
        column,
        pc.and_(column.is_valid(), pc.invert(pc.is_in(lower, value_set=pa.array([*_TRUE, *_FALSE])))),
        "a boolean",
    )
    return pc.if_else(column.is_valid(), true, None)


def to_integer(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return numerals without exponent as integers; fractions are truncated."""
    found = parsed(column, _INTEGER, "an integer")
    refuse(column, pc.is_in(column, value_set=pa.array(["", "+", "-"])), "an integer")
    digits = pc.utf8_ltrim(found["whole"], "0")
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    return pc.if_else(pc.equal(found["sign"], "-"), pc.binary_join_element_wise("-", digits, ""), digits).cast(arrow)


def to_float(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return texts as parsed by Java's `parseDouble` or `parseFloat`; hexadecimal floats are rejected."""
    found = parsed(column, _FLOAT, "a number")
    plain = pc.if_else(pc.equal(found["word"], ""), found["number"], pc.utf8_lower(found["word"]))
    size = plain.cast(arrow)
    return pc.if_else(pc.equal(found["sign"], "-"), pc.negate(size), size)


def to_binary(column: pa.Array, target: AtomicType) -> pa.Array:
    """Return texts or bytes as bytes, truncated to the length of `target`, and zero-padded if it is BINARY."""
    length = target.length or 1
    cut = pc.binary_slice(column.cast(pa.binary()), 0, length)
    if target.root is not TypeRoot.BINARY:
        return cut
    return pc.binary_slice(pc.binary_join_element_wise(cut, pa.scalar(bytes(length), pa.binary()), b""), 0, length)


def to_date(column: pa.Array) -> pa.Array:
    """Return texts such as `2024-5-14` or `2024-05`, text after a blank ignored, or days since 1970, as dates."""
    counted = pc.match_substring_regex(column, _DIGITS)
    cut = pc.if_else(pc.starts_with(column, " "), column, pc.replace_substring_regex(column, r"^([^ ]+) .*$", r"\1"))
    found = parsed(pc.if_else(counted, None, cut), _DATE, "a date")
    years, months, days = (whole_numbers(found[n], default) for n, default in (("year", 0), ("month", 1), ("day", 1)))
    inside = (years <= _LAST_YEAR) & (months >= 1) & (months <= len(_LENGTHS)) & (days >= 1)
    refuse(column, ~(inside & (days <= _lengths(years, months))) & valid_mask(found["year"]), "a date")
    out = np.where(_true(counted), _numbers(column, counted, pa.int32()), _epoch_days(years, months, days))
    return from_numpy(out.astype(np.int32), pa.date32(), column)


def _true(condition: pa.Array) -> Mask:
    """Return where a condition is true; null counts as false."""
    return np.asarray(pc.fill_null(condition, False))  # noqa: FBT003


def _numbers(column: pa.Array, chosen: pa.Array, arrow: pa.DataType) -> I64:
    """Return the chosen texts as integers, and 0 for the others."""
    return np.asarray(to_integer(pc.if_else(pa.array(_true(chosen)), column, "0"), arrow))


def _lengths(years: I64, months: I64) -> I64:
    """Return the number of days of each month."""
    leap = (years % 400 == 0) | ((years % 4 == 0) & (years % 100 != 0))
    return _LENGTHS[np.clip(months, 1, len(_LENGTHS)) - 1] + (leap & (months == 2))


def _epoch_days(years: I64, months: I64, days: I64) -> I64:
    since = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    return since.astype("datetime64[D]").astype(np.int64) + days - 1


def to_time(column: pa.Array) -> pa.Array:
    """Return texts such as `10:11:12.5` or `7`, or milliseconds of the day, as times of day.

    A zone offset after the time is added, not subtracted, as in Paimon.

    Raises:
        ValueError: a text is not a time, or is out of range of a day.
    """
    counted = pc.match_substring_regex(column, _DIGITS)
    found = parsed(pc.if_else(counted, None, column), _TIME, "a time of day")
    loose = pc.and_(pc.not_equal(found["exact"], ""), pc.equal(found["second"], ""))
    refuse(column, loose, "a time of day")
    side = np.where(_true(pc.equal(found["side"], "-")), -1, 1)
    hours = whole_numbers(found["hour"]) + side * whole_numbers(found["hours"])
    minutes = whole_numbers(found["minute"]) + side * whole_numbers(found["minutes"])
    millis = ((hours * 60 + minutes) * 60 + whole_numbers(found["second"])) * 1000 + _rounded_millis(found["fraction"])
    out = np.where(_true(counted), _numbers(column, counted, pa.int32()), millis)
    refuse(column, (out < 0) | (out >= MILLIS_PER_DAY), "a time of day")
    return from_numpy(out.astype(np.int32), pa.time32("ms"), column)


def _rounded_millis(fractions: pa.Array) -> I64:
    """Return the digits of fractions as milliseconds, rounded; other characters count as zero."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(pc.fill_null(fractions, ""), r"[^0-9]", "0"), 4, "0")
    return (whole_numbers(pc.utf8_slice_codeunits(digits, 0, 4)) + 5) // 10


def to_timestamp(column: pa.Array, target: AtomicType, zone: str) -> pa.Array:
    """Return texts such as `2024-05-14` or `2024-05-14 10:11:12.5` as timestamps.

    A plain number counts units of the timestamp's precision: seconds, millis, micros or nanos since 1970.

    Raises:
        ValueError: a text is not a timestamp, or a plain number is cast to another precision or to a timestamp with
            time zone.
    """
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis, nanos = _moments(column, target.precision or 0)
        return timestamps_of(instant_millis(millis, zone), nanos, target, column)
    counted = pc.match_substring_regex(column, _DIGITS)
    millis, nanos = _moments(pc.if_else(counted, None, column), target.precision or 0)
    numeric = _true(counted)
    if numeric.any():
        if target.precision not in _PER_SECOND:
            refuse(column, counted, f"a timestamp of {target.precision} digits")
        per = _PER_SECOND[target.precision or 0]
        numbers = _numbers(column, counted, pa.int64())
        whole = numbers * 1000 if per == 1 else numbers // (per // 1000)
        rest = numbers * 0 if per == 1 else (numbers - whole * (per // 1000)) * (10**9 // per)
        millis, nanos = np.where(numeric, whole, millis), np.where(numeric, rest, nanos)
    return timestamps_of(millis, nanos, target, column)


def _moments(column: pa.Array, digits: int) -> tuple[I64, I64]:
    """Return local milliseconds and the nanoseconds within them, truncated to `digits` digits of a second."""
    found = parsed(column, _STAMP, "a timestamp")
    years, months, days = (
        whole_numbers(found[n], default) for n, default in (("year", 1970), ("month", 1), ("day", 1))
    )
    hours, minutes, seconds = (whole_numbers(found[n]) for n in ("hour", "minute", "second"))
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.fill_null(found["fraction"], ""), 0, digits), 9, "0")
    nanos = whole_numbers(fraction)
    stored = whole_numbers(pc.utf8_rpad(pc.fill_null(found["fraction"], ""), 9, "0"))
    midnight = (hours == 24) & (minutes == 0) & (seconds == 0) & (stored == 0)
    bad = (years < 1) | (months < 1) | (months > 12) | (days < 1) | (days > 31)
    bad |= ((hours > 23) & ~midnight) | (minutes > 59) | (seconds > 59)
    refuse(column, bad & valid_mask(found["year"]), "a timestamp")
    days = _epoch_days(years, months, np.minimum(days, _lengths(years, months)))  # Java turns 31 April into the 30th
    millis = days * MILLIS_PER_DAY + ((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos // 1_000_000
    return millis, nanos % 1_000_000

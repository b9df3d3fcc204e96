"""Casts to text, formatted as in Java."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import values_of
from paimon_spark.core.casts.cells import refuse, valid_mask, whole_numbers
from paimon_spark.core.casts.times import days_and_millis, local_millis, split_timestamps
from paimon_spark.format.arrays import I64
from paimon_spark.spec.types import MAX_LENGTH, AtomicType, TypeRoot

_FLOAT_TEXT = r"^(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?(?:e(?P<power>[+-]?[0-9]+))?$"
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
_COARSE = 200
"""The smallest floats, up to this many, are so coarse that a second digit can be closer to them."""

_YEAR_0 = -719_528
"""The first day of year 0."""
_DAYS_OF_10000_YEARS = 25 * 146_097
"""After this many days the calendar repeats, with the same last four digits of the year."""


def fitted(text: pa.Array, target: AtomicType) -> pa.Array:
    """Return texts truncated to the length of `target`, and blank-padded if it is CHAR."""
    length = target.length or 1
    if length == MAX_LENGTH:
        return text
    cut = pc.utf8_slice_codeunits(text, 0, length)
    return pc.utf8_rpad(cut, length, " ") if target.root is TypeRoot.CHAR else cut


def float_text(column: pa.Array) -> pa.Array:
    """Return floats as Java's `toString` formats them: `1.0`, `1.0E10`, `NaN`, `-Infinity`.

    The digits are the shortest that identify the number, as in Java 19 and later. Older releases write an extra digit
    for some numbers: 1.23456792E8 for the float 1.2345679E8. `spec.literals.java_float` does the same for one number.
    """
    size = pc.abs(column)
    shortest = size.cast(pa.string())
    values = np.where(valid_mask(column), values_of(size), 0)
    finite = np.isfinite(values)
    scientific = finite & (values != 0) & ((values < _PLAIN_FROM) | (values >= _PLAIN_TO))
    point = pc.match_substring(shortest, ".")
    text = pc.if_else(point, shortest, pc.binary_join_element_wise(shortest, "0", "."))
    if scientific.any():
        some = pa.array(scientific)
        text = pc.replace_with_mask(text, some, _with_exponent(shortest.filter(some), values[scientific]))
    if not finite.all():
        text = pc.if_else(pa.array(np.isnan(values)), "NaN", pc.if_else(pa.array(np.isinf(values)), "Infinity", text))
    negative = np.signbit(values_of(column)) & ~np.isnan(values)
    text = pc.if_else(pa.array(negative), pc.binary_join_element_wise("-", text, ""), text)
    return pc.if_else(column.is_valid(), text, None)


def _with_exponent(shortest: pa.Array, values: npt.NDArray[np.floating]) -> pa.Array:
    """Return positive numbers in scientific notation, with one digit before the point."""
    found = pc.extract_regex(shortest, _FLOAT_TEXT)
    whole, part, power = (pc.struct_field(found, [i]) for i in range(3))
    digits = pc.binary_join_element_wise(whole, part, "")
    stripped = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(stripped))
    before = np.asarray(pc.subtract(pc.utf8_length(whole), zeros)).astype(np.int64)
    exponents = before - 1 + whole_numbers(power)
    stripped = pc.utf8_rtrim(stripped, "0")
    first, rest = pc.utf8_slice_codeunits(stripped, 0, 1), pc.utf8_slice_codeunits(stripped, 1)
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    exponent = pa.array(exponents).cast(pa.string())
    text = pc.binary_join_element_wise(pc.binary_join_element_wise(first, rest, "."), exponent, "E")
    smallest = np.finfo(values.dtype).smallest_subnormal
    coarse = values < _COARSE * smallest
    if coarse.any():
        places = (np.where(coarse, values, 0) / smallest).astype(np.int64)
        finer = _smallest(values.dtype).take(pa.array(places))
        text = pc.if_else(pc.and_(pa.array(coarse), pc.equal(pc.utf8_length(stripped), 1)), finer, text)
    return text


def _smallest(dtype: np.dtype[np.floating]) -> pa.Array:
    """Return the smallest floats that have two digits."""
    numbers = (float(n * np.finfo(dtype).smallest_subnormal) for n in range(_COARSE))
    return pa.array([f"{n:.1e}".replace("e", "E") for n in numbers])


def date_text(days: pa.Array) -> pa.Array:
    """Return dates as `2024-05-14`; for years beyond 9999, the last four digits of the year."""
    text = _day(values_of(days.fill_null(0)).astype(np.int64), days)
    return pc.if_else(days.is_valid(), text, None)


def _day(days: I64, like: pa.Array) -> pa.Array:
    refuse(like, days < _YEAR_0, "a date that can be cast to text")
    days = (days - _YEAR_0) % _DAYS_OF_10000_YEARS + _YEAR_0
    dates = pa.array(days.astype(np.int32)).view(pa.date32())
    years = np.asarray(pc.year(dates))
    return pc.binary_join_element_wise(
        _padded(years, 4), _padded(np.asarray(pc.month(dates)), 2), _padded(np.asarray(pc.day(dates)), 2), "-"
    )


def _padded(numbers: npt.NDArray[np.int64], width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _clock(millis: I64) -> pa.Array:
    return pc.binary_join_element_wise(
        _padded(millis // 3_600_000, 2), _padded(millis // 60_000 % 60, 2), _padded(millis // 1000 % 60, 2), ":"
    )


def _fraction(digits: pa.Array, least: int) -> pa.Array:
    """Return a point and the digits of fractions without trailing zeros, but at least `least` digits; empty if none."""
    kept = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(digits, 0, least), pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, least), "0"), ""
    )
    return pc.if_else(pc.equal(kept, ""), "", pc.binary_join_element_wise(".", kept, ""))


def time_text(column: pa.Array, precision: int) -> pa.Array:
    """Return times of day as `10:11:12.5`; with a precision, at least one digit of the fraction."""
    millis = values_of(column.fill_null(0)).astype(np.int64)
    text = _clock(millis)
    if precision:
        digits = pc.utf8_slice_codeunits(_padded(millis % 1000, 3), 0, precision)
        text = pc.binary_join_element_wise(text, _fraction(digits, 1), "")
    return pc.if_else(column.is_valid(), text, None)


def timestamp_text(column: pa.Array, source: AtomicType, zone: str) -> pa.Array:
    """Return timestamps as `2024-05-14 10:11:12.500`, with at least as many fraction digits as `source` declares."""
    millis, nanos = split_timestamps(column)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        millis = local_millis(millis, zone)
    days, of_day = days_and_millis(millis)
    digits = _padded((of_day % 1000) * 1_000_000 + nanos, 9)
    clock = pc.binary_join_element_wise(_clock(of_day), _fraction(digits, source.precision or 0), "")
    text = pc.binary_join_element_wise(_day(days, column), clock, " ")
    return pc.if_else(column.is_valid(), text, None)

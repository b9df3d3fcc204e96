"""Casts between numbers: integers wrap, floats saturate, decimals round half up and become null on overflow."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import decimal_limbs, values_of
from paimon_spark.core.casts.cells import from_numpy, in_groups, parsed, refuse, whole_numbers
from paimon_spark.format.arrays import I64

_MOST_DIGITS = 38
_WIDE = 76
_COMPACT = 18
"""Paimon stores decimals of up to this precision in 64 bits, and divides them as floats."""
_EXACT = Context(prec=_WIDE)
_NUMERAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[+-]?[0-9]{1,10}))?$"


def to_integer(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return numbers as integers of type `arrow`; fractions are truncated."""
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        return column.cast(arrow, safe=False)
    if pa.types.is_decimal(column.type):
        low, _ = decimal_limbs(_whole_part(column))
        return from_numpy(low.view(np.int64).astype(arrow.to_pandas_dtype()), arrow, column)
    bits = max(32, arrow.bit_width)
    return from_numpy(_saturated(column, bits).astype(arrow.to_pandas_dtype()), arrow, column)


def _saturated(column: pa.Array, bits: int) -> I64:
    """Return floats as integers of `bits` bits, saturated at the bounds; 0 for NaN."""
    floats = np.trunc(values_of(column).astype(np.float64))
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = (floats >= low) & (floats < high)
    out = np.where(inside, floats, 0).astype(np.int64)
    out[floats < low] = -(2 ** (bits - 1))
    out[floats >= high] = 2 ** (bits - 1) - 1
    return out


def _whole_part(column: pa.Array) -> pa.Array:
    """Return the integer part of decimals, as decimals of scale 0."""
    wide = column.cast(pa.decimal256(_WIDE, column.type.scale))
    return pc.trunc(wide).cast(pa.decimal256(_WIDE, 0)).cast(pa.decimal128(_MOST_DIGITS, 0))


def to_float(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return numbers as floats of type `arrow`."""
    if not pa.types.is_decimal(column.type):
        return column.cast(arrow, safe=False)
    if column.type.precision > _COMPACT:
        doubles = decimal_text(column).cast(pa.float64())
    else:
        low, _ = decimal_limbs(column)
        powers = np.float64(10**column.type.scale)
        doubles = from_numpy(low.view(np.int64).astype(np.float64) / powers, pa.float64(), column)
    return doubles.cast(arrow, safe=False)


def _scaled_by(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the unscaled values of decimals as decimals of another scale."""
    return pa.Array.from_buffers(target, len(column), column.buffers(), column.null_count, column.offset)


def decimal_text(column: pa.Array) -> pa.Array:
    """Return decimals as plain text with all digits of their scale, without exponent."""
    scale = column.type.scale
    text = _scaled_by(column, pa.decimal128(_MOST_DIGITS, 0)).cast(pa.string())
    if scale == 0:
        return text
    negative = pc.starts_with(text, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    point = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale), "."
    )
    return pc.if_else(negative, pc.binary_join_element_wise("-", point, ""), point)


def to_decimal(column: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return numbers as decimals, rounded half up; null on overflow.

    Raises:
        ValueError: a float is not finite.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(19, 0))
    if pa.types.is_decimal(column.type):
        return _rescaled(column, precision, scale)
    # The shortest decimal representation of the double counts, also for a float, not its exact value: 1.005 rounds up.
    return decimal_of_text(column.cast(pa.float64(), safe=False).cast(pa.string()), precision, scale)


def _rescaled(column: pa.Array, precision: int, scale: int) -> pa.Array:
    wide = pa.decimal256(_WIDE, max(column.type.scale, scale))
    rounded = pc.round(column.cast(wide), ndigits=scale, round_mode="half_towards_infinity")
    most = Decimal(10**precision - 1).scaleb(-scale, _EXACT)
    fits = pc.less_equal(pc.abs(rounded), pa.scalar(most, wide))
    return pc.if_else(fits, rounded, None).cast(pa.decimal256(_WIDE, scale)).cast(pa.decimal128(precision, scale))


def decimal_of_text(column: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return numerals, with or without exponent, as decimals; see `to_decimal`.

    Raises:
        ValueError: a text is not a decimal number.
    """
    found = parsed(column, _NUMERAL, "a decimal number")
    digits = pc.binary_join_element_wise(found["whole"], found["part"], "")
    refuse(column, pc.equal(digits, ""), "a decimal number")
    shift = whole_numbers(found["power"]) - _lengths(found["part"]) + scale
    stripped = pc.utf8_ltrim(digits, "0")
    size = _lengths(stripped) + shift
    zero = (_lengths(stripped) == 0) | (size < 0)
    large = (size > precision) & ~zero
    # Rows that are zero or overflow join the group of integers, without a shift.
    odd = zero | large
    stripped = pc.if_else(pa.array(odd), pc.if_else(column.is_valid(), "0", None), stripped)
    numbers = in_groups(np.where(odd, 0, shift), [stripped], lambda by, parts: _shifted(parts[0], by))
    signed = pc.if_else(pc.equal(found["sign"], "-"), pc.negate(numbers), numbers)
    most = pa.scalar(Decimal(10**precision - 1), signed.type)
    fits = pc.and_(pc.less_equal(numbers, most), pa.array(~large))
    whole = pc.if_else(fits, signed, None).cast(pa.decimal128(_MOST_DIGITS, 0))
    return _scaled_by(whole, pa.decimal128(precision, scale))


def _lengths(texts: pa.Array) -> I64:
    return np.asarray(pc.fill_null(pc.utf8_length(texts), 0)).astype(np.int64)


def _shifted(digits: pa.Array, by: int) -> pa.Array:
    """Return integers multiplied by a power of ten, rounded half up, as wide decimals."""
    wide = pa.decimal256(_WIDE, 0)
    if by >= 0:
        return pc.binary_join_element_wise(digits, "0" * by, "").cast(wide)
    kept = pc.utf8_slice_codeunits(digits, 0, by)
    first_cut = pc.utf8_slice_codeunits(digits, by, by + 1 or None)
    up = pc.if_else(pc.greater_equal(first_cut, "5"), "1", "0").cast(wide)
    sums = pc.add(
        pc.if_else(pc.equal(kept, ""), "0", kept).cast(pa.decimal256(_WIDE - 1, 0)), up.cast(pa.decimal256(1, 0))
    )
    return sums.cast(wide)

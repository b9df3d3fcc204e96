"""Conversion of seconds and nanoseconds to timestamps, with range checks: files have a wider range than Arrow types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import UNIT_DIGITS

BILLION = 1_000_000_000
PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": BILLION}


class OutOfRangeError(ArithmeticError):
    """A value in a file is out of range of its Arrow type. Readers translate it into an error that names the file."""


@contextmanager
def in_column(name: str) -> Iterator[None]:
    """Add the column name to range errors of the block."""
    try:
        yield
    except OutOfRangeError as e:
        raise OutOfRangeError(f"in column '{name}' {e}") from e


def check_range(seconds: I64, nanos: I64, target: pa.DataType) -> None:
    """Check that timestamps are within the range of their unit.

    Args:
        seconds: epoch seconds.
        nanos: nanoseconds to add, in [0, 10^9).
        target: type of the timestamps.

    Raises:
        OutOfRangeError: a timestamp is out of range.
    """
    per_second = PER_SECOND[target.unit]
    low, least = divmod(-(1 << 63), per_second)
    high, most = divmod((1 << 63) - 1, per_second)
    fraction = nanos // (BILLION // per_second)
    beyond = (seconds < low) | (seconds > high)
    beyond |= ((seconds == low) & (fraction < least)) | ((seconds == high) & (fraction > most))
    if beyond.any():
        raise OutOfRangeError(
            f"a timestamp {int(seconds[beyond][0])} seconds after 1970-01-01; with {UNIT_DIGITS[target.unit]} digits "
            f"of a second, timestamps here reach {high} seconds to either side"
        )


def timestamps(shape: pa.Array, seconds: I64, nanos: I64, target: pa.DataType) -> pa.Array:
    """Return timestamps with the nulls of `shape`; the values are those of its non-null slots."""
    per_second = PER_SECOND[target.unit]
    values = np.zeros(len(shape), np.int64)
    valid = shape.is_valid().to_numpy(zero_copy_only=False)
    values[valid] = seconds * per_second + nanos // (BILLION // per_second)
    return pa.array(values, pa.int64(), mask=~valid).cast(target)

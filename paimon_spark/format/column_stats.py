"""Column statistics, collected batch by batch while a file is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stats import ColumnStats, StatsMode, truncate_stats
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

UNKNOWN = ColumnStats(None, None, None)
_WITHOUT_ORDER = (TypeRoot.VARIANT, TypeRoot.BLOB)
LONG_VALUE = 256 << 10
_PER_MILLI = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}


def has_long_values(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a string or binary column has values long enough that copies are expensive."""
    text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    if not text or values.nbytes < LONG_VALUE:
        return False
    return (pc.max(pc.binary_length(values)).as_py() or 0) >= LONG_VALUE


class StatsCollector:
    """Collects minimum, maximum and null count of each field, according to its statistics mode.

    Nested columns have no statistics. A floating point column with NaN has no minimum and maximum: Spark orders NaN
    above all numbers, other readers do not.
    """

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode] | None) -> None:
        self._columns = [_Column(f.type, modes[i] if modes is not None else None) for i, f in enumerate(fields)]

    def update(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows to the statistics; columns are in field order."""
        for column, values in zip(self._columns, data.columns, strict=True):
            column.update(values)

    def result(self) -> tuple[ColumnStats, ...]:
        """Return the current statistics of each field."""
        return tuple(c.result() for c in self._columns)


class _Column:
    __slots__ = ("_bounds", "_collect", "_has_nan", "_maxima", "_minima", "_mode", "_nulls")

    def __init__(self, t: DataType, mode: StatsMode | None) -> None:
        ordered = isinstance(t, AtomicType) and t.root not in _WITHOUT_ORDER
        self._mode = mode
        self._collect = mode is not None and mode.collects and ordered
        self._bounds = mode is not None and mode.bounds and ordered
        self._nulls = 0
        self._has_nan = False
        self._minima: list[pa.Scalar] = []
        self._maxima: list[pa.Scalar] = []

    def update(self, values: pa.Array | pa.ChunkedArray) -> None:
        if not self._collect:
            return
        self._nulls += values.null_count
        if not self._bounds or self._has_nan:
            return
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            self._has_nan = True
            return
        both = pc.min_max(self._beginnings(values))
        if both["min"].is_valid:
            self._minima.append(both["min"])
            self._maxima.append(both["max"])

    def _beginnings(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return `values` with long texts truncated to slightly more than the stored length.

        Bounds are copied several times. Prefixes sort like the full texts.
        """
        length = self._mode.length if self._mode is not None else None
        if length is None or not has_long_values(values):
            return values
        if pa.types.is_string(values.type):
            try:
                return pc.utf8_slice_codeunits(values, 0, length + 1)
            except pa.ArrowInvalid:  # not UTF-8
                return values
        return pc.binary_slice(values, 0, length + 1)

    def result(self) -> ColumnStats:
        if not self._collect or self._mode is None:
            return UNKNOWN
        if self._has_nan or not self._minima:
            return ColumnStats(None, None, self._nulls)
        t = self._minima[0].type
        low = pc.min(pa.array(self._minima, t))
        high = pc.max(pa.array(self._maxima, t))
        try:
            bounds = _signed(_value(low), -0.0), _signed(_value(high), 0.0)
        except UnicodeDecodeError:  # Spark stores texts that are not UTF-8
            return ColumnStats(None, None, self._nulls)
        return truncate_stats(ColumnStats(*bounds, self._nulls), self._mode)


def _signed(bound: Any, zero: float) -> Any:
    """Return a bound that covers both 0.0 and -0.0, which are equal here; Java readers order -0.0 before 0.0."""
    return zero if isinstance(bound, float) and bound == 0 else bound


def _value(scalar: pa.Scalar) -> Any:
    """Return a scalar as a value of `spec.rows`."""
    t = scalar.type
    if pa.types.is_timestamp(t):
        millis, rest = divmod(scalar.value, _PER_MILLI[t.unit])
        return Timestamp(millis, rest * (1_000_000 // _PER_MILLI[t.unit]))
    if pa.types.is_date(t) or pa.types.is_time(t):
        return scalar.value
    return scalar.as_py()

"""Sums and products: integers and decimals are exact, floats are added one after another as Paimon does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import decimal_limbs, values_of
from paimon_spark.core.merge.aggregates.inputs import MANY_INPUTS, Inputs, by_rank, spread
from paimon_spark.core.merge.key_groups import Merged
from paimon_spark.errors import ErrorKind, PaimonError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

_LIMB = 64
_SAFE = 1 << 62
"""int64 sums below this do not wrap."""
_MARGIN = 1.000001
"""Covers the rounding of sums that are estimated in floating point."""
_COMPACT_DECIMAL = 18

Numbers = npt.NDArray[Any]
"""int64, a float type, or Python integers (dtype object)."""


class _Arithmetic:
    """Base of sum and product: the column's numbers, their limits, and the result as a column."""

    def __init__(self, field: DataField) -> None:
        if not isinstance(field.type, AtomicType):
            raise TypeError(field.name)
        self._name = field.name
        self._type = field.type
        self._scale = field.type.scale or 0
        self._is_decimal = field.type.root is TypeRoot.DECIMAL
        self._is_float = field.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
        self._limit = 0 if self._is_float else _limit(field.type)

    def _numbers(self, values: pa.Array) -> Numbers:
        if not self._is_decimal:
            numbers = values_of(values)
            return numbers if self._is_float else numbers.astype(np.int64, copy=False)
        low, high = decimal_limbs(values.cast(pa.decimal128(self._type.precision, self._scale)))
        if (self._type.precision or 0) <= _COMPACT_DECIMAL:
            return low.view(np.int64)
        wide: Numbers = (high.astype(object) << _LIMB) | low.astype(object)
        return wide

    def _fits(self, value: Any) -> Any:
        """Return whether a number fits the type, or where those of an array do."""
        return (-self._limit - (not self._is_decimal) <= value) & (value <= self._limit)

    def _overflow(self, what: str) -> PaimonError:
        wider = "DECIMAL(38, 0)" if self._type.root is TypeRoot.BIGINT else "BIGINT"
        return PaimonError(
            f"The {what} of column '{self._name}' does not fit its type {self._type.root}.",
            hint=f"Change the column to a wider type: ALTER TABLE … ALTER COLUMN … TYPE {wider}.",
            kind=ErrorKind.ARITHMETIC_OVERFLOW,
        )

    def _column(self, numbers: Numbers, valid: Mask, arrow: pa.DataType) -> pa.Array:
        if not self._is_decimal:
            return pa.array(numbers, mask=None if valid.all() else ~valid).cast(arrow)
        return _decimals(numbers, valid, pa.decimal128(self._type.precision, self._scale)).cast(arrow)


class Sum(_Arithmetic):
    """Adds up inputs and subtracts retracts. A sum that overflows is an error, of decimals it is null."""

    def __call__(self, inputs: Inputs) -> Merged:
        """Return the sum of each key; null if all inputs are null.

        Raises:
            PaimonError: an integer sum overflows.
        """
        some, keys = inputs.where(inputs.valid)
        if not len(keys):
            return pa.nulls(len(inputs.starts), inputs.column.type)
        numbers = self._numbers(some.values)
        valid = np.ones(len(keys), dtype=np.bool_)
        if self._is_float:
            sums = _added(numbers if some.retract is None else np.where(some.retract, -numbers, numbers), some)
        else:
            signed = numbers if some.retract is None else np.where(some.retract, -numbers, numbers)
            sums = np.add.reduceat(signed, some.starts)
            for key in self._doubtful(numbers, some):
                start = int(some.starts[key])
                total = self._exact(numbers[start : start + int(some.counts[key])], some.retracted[start:])
                valid[key] = total is not None
                sums[key] = total or 0
        return spread(self._column(sums, valid, inputs.column.type), keys, len(inputs.starts))

    def _doubtful(self, numbers: Numbers, inputs: Inputs) -> I64:
        """Return the keys whose sum may exceed the limits of the type, or of int64."""
        limit = self._limit if numbers.dtype == object else min(self._limit, _SAFE)
        largest = max(abs(int(numbers.max())), abs(int(numbers.min())))
        if largest * int(inputs.counts.max()) < limit:
            return np.empty(0, dtype=np.int64)
        reach = np.add.reduceat(np.abs(numbers.astype(np.float64)), inputs.starts)
        return np.flatnonzero(reach * _MARGIN >= limit)

    def _exact(self, numbers: Numbers, retracted: Mask) -> int | None:
        """Return the sum of one key, checked after each step as Paimon does."""
        total: int | None = None
        for value, back in zip(numbers.tolist(), retracted.tolist(), strict=False):
            total = (total or 0) + (-value if back else value)
            if not self._fits(total):
                if not self._is_decimal:
                    raise self._overflow("sum")
                total = None
        return total


class Product(_Arithmetic):
    """Multiplies inputs and divides by retracts, which integers truncate and decimals round half up."""

    def __call__(self, inputs: Inputs) -> Merged:
        """Return the product of each key; null if all inputs are null.

        Raises:
            PaimonError: an integer product overflows, or a number is divided by zero.
        """
        some, keys = inputs.where(inputs.valid)
        if not len(keys):
            return pa.nulls(len(inputs.starts), inputs.column.type)
        numbers = self._numbers(some.values)
        numbers = numbers if self._is_float else numbers.astype(object)
        product = numbers[some.starts]
        valid = ~some.retracted[some.starts]
        for where, at in by_rank(some):
            with np.errstate(all="ignore"):
                self._step(product, valid, where, numbers[at], some.retracted[at])
        return spread(self._column(product, valid, inputs.column.type), keys, len(inputs.starts))

    def _step(self, product: Numbers, valid: Mask, where: I64, numbers: Numbers, back: Mask) -> None:
        fresh = ~valid[where] & ~back
        product[where[fresh]] = numbers[fresh]
        both = valid[where]
        for mask, step in ((both & ~back, self._times), (both & back, self._divided)):
            if mask.any():
                product[where[mask]] = step(product[where[mask]], numbers[mask])
        valid[where[fresh]] = True
        if not self._is_float:
            over = where[both][~self._fits(product[where[both]])]
            if len(over) and not self._is_decimal:
                raise self._overflow("product")
            valid[over] = False

    def _times(self, a: Numbers, b: Numbers) -> Numbers:
        return _rounded(a * b, 10**self._scale) if self._is_decimal else a * b

    def _divided(self, a: Numbers, b: Numbers) -> Numbers:
        if self._is_float:
            quotient: Numbers = a / b
            return quotient
        if (b == 0).any():
            raise PaimonError(
                f"A retract of zero divides the product of column '{self._name}' by zero.",
                hint=f"Set 'fields.{self._name}.ignore-retract' = 'true'.",
                kind=ErrorKind.DIVIDE_BY_ZERO,
            )
        if self._is_decimal:
            return _rounded(a * 10**self._scale * np.sign(b), np.abs(b))
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def _rounded(numbers: Numbers, by: Any) -> Numbers:
    """Return ``numbers / by``, rounded half away from zero."""
    out: Numbers = np.sign(numbers) * ((np.abs(numbers) + by // 2) // by)
    return out


def _limit(t: AtomicType) -> int:
    if t.root is TypeRoot.DECIMAL:
        return int(10 ** (t.precision or 0)) - 1
    bits = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}[t.root]
    return int(2 ** (bits - 1)) - 1


def _added(numbers: Numbers, inputs: Inputs) -> Numbers:
    """Return the sum of each key, added from left to right."""
    sums = numbers[inputs.starts].copy()
    long = inputs.counts > MANY_INPUTS
    for where, at in by_rank(inputs, ~long):
        sums[where] += numbers[at]
    for key in np.flatnonzero(long):
        start = int(inputs.starts[key])
        sums[key] = np.add.accumulate(numbers[start : start + int(inputs.counts[key])])[-1]
    return sums


def _decimals(numbers: Numbers, valid: Mask, arrow: pa.DataType) -> pa.Array:
    limbs = np.zeros((len(numbers), 2), dtype=np.int64)
    if numbers.dtype == object:
        filled = np.where(valid, numbers, 0)
        limbs[:, 0] = (filled & ((1 << _LIMB) - 1)).astype(np.uint64).view(np.int64)
        limbs[:, 1] = (filled >> _LIMB).astype(np.int64)
    else:
        limbs[:, 0] = numbers
        limbs[:, 1] = numbers >> 63
    nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(arrow, len(numbers), [nulls, pa.py_buffer(limbs)])

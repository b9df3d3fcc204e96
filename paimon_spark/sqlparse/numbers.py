"""Comparisons of columns with literals that lie between, or beyond, the values of their types."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, TypeGuard

import numpy as np

from paimon_spark.spec.predicate import FALSE, Comparison, InList, Operator, Predicate
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_EXACT = Context(prec=200)
_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
_LARGEST = {TypeRoot.FLOAT: float(np.finfo(np.float32).max), TypeRoot.DOUBLE: sys.float_info.max}
"""The largest finite number of a type."""


def is_numeric(t: DataType) -> TypeGuard[AtomicType]:
    """Return whether a type is an integer, DECIMAL, FLOAT or DOUBLE."""
    return isinstance(t, AtomicType) and (t.root in _BITS or t.root in _LARGEST or t.root is TypeRoot.DECIMAL)


def holds(t: AtomicType, number: Decimal) -> bool:
    """Return whether a column of a numeric type can have the value `number`.

    FLOAT and DOUBLE columns are compared with the nearest DOUBLE, as in Spark: 0.1 is no value of a FLOAT.
    """
    if t.root in _LARGEST:
        near = float(number)
        return math.isfinite(near) and _floor_float(t.root, near) == near
    low, high, scale = _bounds(t)
    return low <= number <= high and _floor(number, scale) == number


def compare_beyond(op: Operator, column: str, t: AtomicType, number: Decimal) -> Predicate:
    """Return the comparison of a column with a number that it cannot hold; it is unknown for nulls, but for ``<=>``."""
    if t.root in _LARGEST:
        return compare_after(op, column, _floor_float(t.root, float(number)))
    low, high, scale = _bounds(t)
    if op in ("<", "<=", ">", ">=") and low <= number <= high:
        floor = _floor(number, scale)
        return compare_after(op, column, floor if t.root is TypeRoot.DECIMAL else int(floor))
    if op == "<=>":
        return FALSE
    always = op == "!=" or (op in ("<", "<=") and number > high) or (op in (">", ">=") and number < low)
    return InList(column, (), negated=always)


def compare_after(op: Operator, column: str, floor: Any) -> Predicate:
    """Return the comparison of a column with a literal between its value `floor` and the next one."""
    if op in ("<", "<=", ">", ">="):
        return Comparison("<=" if op in ("<", "<=") else ">", column, floor)
    return FALSE if op == "<=>" else InList(column, (), negated=op == "!=")


def _floor_float(root: TypeRoot, number: float) -> float:
    """Return the largest number of a type that is at most `number`."""
    if abs(number) > _LARGEST[root]:
        return _LARGEST[root] if number > 0 else -math.inf
    if root is TypeRoot.DOUBLE:
        return number
    near = np.float32(number)
    return float(near if float(near) <= number else np.nextafter(near, np.float32(-math.inf)))


def _bounds(t: AtomicType) -> tuple[Decimal, Decimal, int]:
    if t.root in _BITS:
        limit = 1 << _BITS[t.root]
        return Decimal(-limit), Decimal(limit - 1), 0
    scale = t.scale or 0
    high = Decimal(10 ** (t.precision or 10) - 1).scaleb(-scale, _EXACT)
    return -high, high, scale


def _floor(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _EXACT)

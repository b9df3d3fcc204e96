"""Comparisons of integer and DECIMAL columns with numbers, also with those that the columns cannot hold."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, TypeGuard

from sqlglot import exp

from paimon_spark.spec.predicate import FALSE, Comparison, InList, Operator, Predicate
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_EXACT = Context(prec=200)
_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
_WHOLE = {
    exp.DataType.Type.TINYINT: 7,
    exp.DataType.Type.SMALLINT: 15,
    exp.DataType.Type.INT: 31,
    exp.DataType.Type.BIGINT: 63,
}


def number_of(tree: Any) -> Decimal | None:
    """Return the value of a number: digits, with a sign or a suffix. None for anything else, and for inexact casts."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Neg):
        number = number_of(tree.this)
        return None if number is None else -number
    if isinstance(tree, exp.Literal):
        return None if tree.is_string else _decimal(tree.this)
    if not isinstance(tree, exp.Cast | exp.TryCast):
        return None
    of_decimal = tree.to.this == exp.DataType.Type.DECIMAL  # 1.5BD is a cast of a text
    inner = _decimal(tree.this.this) if of_decimal and isinstance(tree.this, exp.Literal) else number_of(tree.this)
    return inner if inner is not None and _keeps(tree.to, inner) else None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _keeps(t: Any, number: Decimal) -> bool:
    """Return whether a cast to a type of SQL keeps a number."""
    if t.this in _WHOLE:
        limit = 1 << _WHOLE[t.this]
        return -limit <= number < limit and number == number.to_integral_value()
    if t.this == exp.DataType.Type.DECIMAL and len(t.expressions) == 2:
        precision, scale = (int(p.this.this) for p in t.expressions)
        return abs(number) < Decimal(1).scaleb(precision - scale) and number == _floor(number, scale)
    return bool(t.this == exp.DataType.Type.DOUBLE)


def is_exact(t: DataType) -> TypeGuard[AtomicType]:
    """Return whether a type is an integer or DECIMAL."""
    return isinstance(t, AtomicType) and (t.root in _BITS or t.root is TypeRoot.DECIMAL)


def holds(t: AtomicType, number: Decimal) -> bool:
    """Return whether a column of an exact type can have the value `number`."""
    low, high, scale = _bounds(t)
    return low <= number <= high and _floor(number, scale) == number


def compare_beyond(op: Operator, column: str, t: AtomicType, number: Decimal) -> Predicate:
    """Return the comparison of a column with a number that it cannot hold; it is unknown for nulls, but for ``<=>``."""
    low, high, scale = _bounds(t)
    if op == "<=>":
        return FALSE
    if op in ("<", "<=", ">", ">=") and low <= number <= high:
        floor = _floor(number, scale)
        value = floor if t.root is TypeRoot.DECIMAL else int(floor)
        return Comparison("<=" if op in ("<", "<=") else ">", column, value)
    always = op == "!=" or (op in ("<", "<=") and number > high) or (op in (">", ">=") and number < low)
    return InList(column, (), negated=always)


def _bounds(t: AtomicType) -> tuple[Decimal, Decimal, int]:
    if t.root in _BITS:
        limit = 1 << _BITS[t.root]
        return Decimal(-limit), Decimal(limit - 1), 0
    scale = t.scale or 0
    high = Decimal(10 ** (t.precision or 10) - 1).scaleb(-scale, _EXACT)
    return -high, high, scale


def _floor(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _EXACT)

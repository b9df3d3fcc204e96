"""Literals of filters with their casts, and their values as those of a column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import tzinfo
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Literal

from sqlglot import exp

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spec.literals import date_text, to_single
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, atomic_text
from paimon_spark.sqlparse.casts import cast_number, cast_text, local_time

Kind = Literal["null", "boolean", "number", "text", "bytes", "date", "timestamp"]
_SQL = exp.DataType.Type
_WHOLE = {_SQL.TINYINT: 7, _SQL.SMALLINT: 15, _SQL.INT: 31, _SQL.BIGINT: 63}
_TEXTS = (_SQL.TEXT, _SQL.VARCHAR)
_STAMPS = (_SQL.TIMESTAMP, _SQL.TIMESTAMPTZ, _SQL.TIMESTAMPLTZ, _SQL.TIMESTAMPNTZ)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_ROOTS: dict[Kind, tuple[TypeRoot, ...]] = {
    "boolean": (TypeRoot.BOOLEAN,),
    "bytes": (TypeRoot.BINARY, TypeRoot.VARBINARY),
    "date": (TypeRoot.DATE, *_TIMES),
    "timestamp": _TIMES,
}
"""The types of the columns that a literal is compared with, if not any."""
_EXACT = Context(prec=200)
_DAY_MILLIS = 86_400_000


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a literal.

    A number is a Decimal, or a float if it is NaN or infinite; a date and a timestamp are texts.
    """

    kind: Kind
    value: Any


def given_value(tree: Any) -> Given | None:
    """Return the value of a literal with sign and casts, as Spark evaluates them; None for any other expression.

    Raises:
        ValueError: a cast that is not supported, or a value that its type does not have; the message names it.
    """
    tree = bare(tree)
    if isinstance(tree, exp.Null):
        return Given("null", None)
    if isinstance(tree, exp.Boolean):
        return Given("boolean", bool(tree.this))
    if isinstance(tree, exp.HexString):
        return Given("bytes", bytes.fromhex(tree.this.zfill(len(tree.this) + len(tree.this) % 2)))
    if isinstance(tree, exp.RawString) or (isinstance(tree, exp.Literal) and tree.is_string):
        return Given("text", str(tree.this))
    if isinstance(tree, exp.Literal):
        number = _decimal(tree.this)
        return None if number is None else Given("number", number)
    inner = given_value(tree.this) if isinstance(tree, exp.Neg | exp.Cast | exp.TryCast) else None
    if inner is None:
        return None
    if not isinstance(tree, exp.Neg):
        return inner if inner.kind == "null" else _cast(inner, tree.to)
    if inner.kind != "number":
        return None
    return Given("number", inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value)


def bare(tree: Any) -> Any:
    """Return an expression without the parentheses around it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _cast(given: Given, t: Any) -> Given:
    try:
        found = _cast_value(given, t)
    except (ArithmeticError, ValueError):
        found = None
    if found is None:
        raise ValueError(f"the cast of {given.value!s} ({given.kind}) to {t.sql('spark')}")
    return found


def _cast_value(given: Given, t: Any) -> Given | None:
    if t.this in _WHOLE or t.this in (_SQL.DECIMAL, _SQL.FLOAT, _SQL.DOUBLE):
        return Given("number", _number(given, t)) if given.kind in ("number", "text") else None
    if t.this in _TEXTS and not t.expressions:
        whole = isinstance(given.value, Decimal) and given.value.as_tuple().exponent == 0
        return Given("text", str(given.value)) if whole or given.kind == "text" else None
    if t.this in (_SQL.DATE, _SQL.DATE32):
        return Given("date", given.value) if given.kind in ("text", "date") else None
    if t.this in _STAMPS:
        return Given("timestamp", given.value) if given.kind in ("text", "date", "timestamp") else None
    return given if t.this == _SQL.BOOLEAN and given.kind == "boolean" else None


def _number(given: Given, t: Any) -> Decimal | float:
    """Return a number or a text as a number of a SQL type; other numbers than those of the type raise an error."""
    if given.kind == "text" and "_" in given.value:
        raise ValueError
    if t.this in (_SQL.FLOAT, _SQL.DOUBLE):
        if given.kind == "text" or isinstance(given.value, float):
            near = float(given.value)
            if not math.isfinite(near):
                return near
        number = Decimal(given.value)
        if t.this == _SQL.FLOAT:
            return Decimal(to_single(float(number)))
        if math.isinf(float(number)):
            raise ValueError
        return number
    number = Decimal(given.value.strip()) if given.kind == "text" else given.value
    if not isinstance(number, Decimal) or not number.is_finite():
        raise ValueError
    if t.this in _WHOLE:
        limit = 1 << _WHOLE[t.this]
        whole = number.quantize(Decimal(1), ROUND_DOWN, _EXACT)
        if not -limit <= whole < limit or (given.kind == "text" and whole != number):
            raise ValueError
        return whole
    precision, scale = (*(int(p.this.this) for p in t.expressions), 0)[:2] if t.expressions else (10, 0)
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if abs(rounded) >= Decimal(1).scaleb(precision - scale):
        raise ValueError
    return rounded


def column_value(given: Given, t: DataType, *, zone: tzinfo, parameter: str) -> Any:
    """Return the value of a literal as a value of a column.

    Raises:
        ArgumentError: the type of the column has no such value, or is not comparable with the literal.
    """
    root = t.root if isinstance(t, AtomicType) else None
    allowed = _ROOTS.get(given.kind)
    if given.kind == "null":
        return None
    if allowed is not None and root not in allowed:
        name = atomic_text(t) if isinstance(t, AtomicType) else "a constructed type"
        shown = given.value.hex() if given.kind == "bytes" else str(given.value).lower()
        raise ArgumentError(
            f"In the argument '{parameter}': the {given.kind} {shown} is compared with a column of type {name}.",
            hint="Write the value in quotes, as the column stores it.",
            kind=ErrorKind.TYPE_MISMATCH,
        )
    if given.kind in ("boolean", "bytes"):
        return given.value
    if given.kind != "number":
        return cast_text(given.value, t, zone=zone, parameter=parameter)
    if isinstance(given.value, float):
        return cast_text(str(given.value), t, zone=zone, parameter=parameter)
    return cast_number(given.value, t, zone=zone, parameter=parameter)


def day_of(given: Given, zone: tzinfo, parameter: str) -> tuple[int, bool]:
    """Return the epoch day of a timestamp, and whether the timestamp is the start of that day.

    Raises:
        ArgumentError: the text is not a timestamp.
    """
    t = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=9)
    instant = cast_text(given.value, t, zone=zone, parameter=parameter)
    try:
        day = local_time(instant, zone).millis // _DAY_MILLIS
        return day, bool(cast_text(date_text(day), t, zone=zone, parameter=parameter) == instant)
    except OverflowError:
        raise ArgumentError(
            f"In the argument '{parameter}': the timestamp {given.value} is not in the years 1 to 9999.",
            hint="Compare with a date.",
        ) from None

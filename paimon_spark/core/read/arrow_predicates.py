"""Translation of predicates to Arrow expressions, for exact row filters and row group pruning.

Negations are pushed down to the leaves. There an unknown result counts as false, which only the top level of a filter
may assume. NaN compares as in SQL: equal to itself and larger than all other numbers. Trailing blanks of a CHAR are
ignored, because only some formats store them. A value of finer precision than its column (micros compared with
TIMESTAMP(3)) lies between two values of the column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import arrow_scalar
from paimon_spark.core.char_values import is_char
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.like_patterns import pattern_regex
from paimon_spark.spec.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comparison,
    InList,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_NANOS_PER_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_UNITS = 2**63 - 1
"""The largest time of a column, in its unit."""
_DIGITS = Context(prec=80)


def to_expression(predicate: Predicate, fields: Mapping[str, DataField], *, negated: bool = False) -> pc.Expression:
    """Return an expression that is true exactly where `predicate` is; `fields` maps names to columns."""
    if isinstance(predicate, AlwaysTrue | AlwaysFalse):
        return pc.scalar(isinstance(predicate, AlwaysTrue) is not negated)
    if isinstance(predicate, Not):
        return to_expression(predicate.part, fields, negated=not negated)
    if isinstance(predicate, And | Or):
        every = isinstance(predicate, And) is not negated
        out = pc.scalar(every)
        for n, part in enumerate(predicate.parts):
            one = to_expression(part, fields, negated=negated)
            out = one if n == 0 else out & one if every else out | one
        return out
    return _leaf(predicate, fields[predicate.column], negated)


def _leaf(p: Leaf, field: DataField, negated: bool) -> pc.Expression:  # noqa: FBT001
    column = pc.field(field.name)
    if isinstance(p, IsNull):
        return column.is_null() if p.negated is negated else column.is_valid()
    if isinstance(p, StartsWith):
        found = pc.starts_with(column, pattern=p.prefix)
        return ~found if negated else found
    if isinstance(p, Like):
        found = pc.match_substring_regex(column, pattern=f"(?s)^{pattern_regex(p.pattern)}$")
        return ~found if negated else found
    if isinstance(p, InList):
        return _in_list(column, field, p, negated=p.negated is not negated)
    if p.op == "<=>":
        return _null_safe(column, field, p.value, negated=negated)
    if p.op == "is":
        return _identical(column, field, p.value, negated=negated)
    if p.value is None:
        return pc.scalar(False)  # noqa: FBT003 - an Arrow literal
    return _compare(column, field, _OPPOSITE[p.op] if negated else p.op, p.value)


def _in_list(column: pc.Expression, field: DataField, p: InList, *, negated: bool) -> pc.Expression:
    if negated and None in p.values:
        return pc.scalar(False)  # noqa: FBT003 - an Arrow literal
    values = [v for v in p.values if v is not None and _fits(v, field.type)]
    if any(isinstance(v, float) and (v == 0 or math.isnan(v)) for v in values):
        parts = tuple(Comparison("!=" if negated else "=", p.column, v) for v in values)
        return to_expression(And(parts) if negated else Or(parts), {p.column: field})
    scalars = pa.array([arrow_scalar(_trimmed(v, field), field.type) for v in values], to_arrow_type(field.type))
    found = _comparable(column, field).isin(scalars)
    return column.is_valid() & ~found if negated else found


def _null_safe(column: pc.Expression, field: DataField, value: Any, *, negated: bool) -> pc.Expression:
    if value is None:
        return column.is_valid() if negated else column.is_null()
    if negated:
        return column.is_null() | _compare(column, field, "!=", value)
    return _compare(column, field, "=", value)


def _identical(column: pc.Expression, field: DataField, value: Any, *, negated: bool) -> pc.Expression:
    """Test like ``<=>``, but distinguish 0.0 from -0.0: their reciprocals are infinite with different signs."""
    found = _null_safe(column, field, value, negated=negated)
    if not isinstance(value, float) or value != 0:
        return found
    other = pc.divide(pc.scalar(1.0), column) != pc.scalar(math.copysign(math.inf, value))
    return found | other if negated else found & ~other


def _compare(column: pc.Expression, field: DataField, op: str, value: Any) -> pc.Expression:
    if _is_below(value, field.type):
        above = op in (">", ">=", "!=")
        return column.is_valid() if above else pc.scalar(False)  # noqa: FBT003 - an Arrow literal
    floor = _floor(value, field.type)
    scalar = arrow_scalar(_trimmed(floor, field), field.type)
    if isinstance(field.type, AtomicType) and field.type.root in _FLOATS:
        if math.isnan(value):
            return _compare_nan(column, op)
        if op in (">", ">="):
            return _plain(column, op, scalar) | pc.is_nan(column)
    if not _fits(value, field.type):
        return _compare_between(column, op, scalar)
    return _plain(_comparable(column, field), op, scalar)


def _compare_between(column: pc.Expression, op: str, floor: pa.Scalar) -> pc.Expression:
    """Compare with a value right after `floor`, which no row can have."""
    if op in ("=", "!="):
        return column.is_valid() if op == "!=" else pc.scalar(False)  # noqa: FBT003 - an Arrow literal
    return column <= floor if op in ("<", "<=") else column > floor


def _floor(value: Any, t: DataType) -> Any:
    """Return the largest value of the column's type that is at most `value`, or the smallest value if there is none."""
    if isinstance(value, Timestamp):
        step = _NANOS_PER_UNIT[to_arrow_type(t).unit]
        units = (value.millis * _NANOS_PER_UNIT["ms"] + value.nano_of_milli) // step
        nanos = min(max(units, -_UNITS - 1), _UNITS) * step
        return Timestamp(*divmod(nanos, _NANOS_PER_UNIT["ms"]))
    if isinstance(value, Decimal) and isinstance(t, AtomicType) and t.root is TypeRoot.DECIMAL:
        return value.quantize(Decimal(1).scaleb(-(t.scale or 0)), ROUND_FLOOR, _DIGITS)
    return value


def _is_below(value: Any, t: DataType) -> bool:
    """Return whether `value` is below all values of the column's type: a time before its range."""
    return isinstance(value, Timestamp) and _floor(value, t) > value


def _fits(value: Any, t: DataType) -> bool:
    return isinstance(value, float) or bool(_floor(value, t) == value)


def _trimmed(value: Any, field: DataField) -> Any:
    return value.rstrip(" ") if is_char(field.type) else value


def _comparable(column: pc.Expression, field: DataField) -> pc.Expression:
    return pc.utf8_rtrim(column, characters=" ") if is_char(field.type) else column


def _compare_nan(column: pc.Expression, op: str) -> pc.Expression:
    if op in ("=", ">="):
        return pc.is_nan(column)
    if op in ("!=", "<"):
        return ~pc.is_nan(column)
    return column.is_valid() if op == "<=" else pc.scalar(False)  # noqa: FBT003 - an Arrow literal


def _plain(column: pc.Expression, op: str, scalar: pa.Scalar) -> pc.Expression:
    if op == "=":
        return column == scalar
    if op == "!=":
        return column != scalar
    if op == "<":
        return column < scalar
    if op == "<=":
        return column <= scalar
    return column > scalar if op == ">" else column >= scalar

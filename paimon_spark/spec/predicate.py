"""Predicates: evaluation on rows and file statistics, and JSON encoding (docs/spec/semantics.md, section 8.2).

Column names are those of the table, values those of `spec.rows`. Evaluation follows SQL: a comparison with null is
unknown (None), and NaN equals itself and is greater than every other number.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, TypeGuard, get_args

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.like_patterns import pattern_prefix, pattern_regex
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stats import ColumnStats

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "<=>", "is"]
_NULL_SAFE = ("<=>", "is")
MAX_COMBINATIONS = 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column` `op` `value`.

    ``<=>`` is null-safe equality; ``is`` also distinguishes 0.0 from -0.0, which are two partitions.
    """

    op: Operator
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class InList:
    """`column` [NOT] IN `values`."""

    column: str
    values: tuple[Any, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column` IS [NOT] NULL."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`column` LIKE '`prefix`%'."""

    column: str
    prefix: str | bytes


@dataclass(frozen=True, slots=True)
class Like:
    """`column` LIKE '`pattern`', where a backslash escapes (`spec.like_patterns`)."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `parts`."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of `part`; unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class AlwaysTrue:
    """True for every row."""


@dataclass(frozen=True, slots=True)
class AlwaysFalse:
    """False for every row."""


Leaf = Comparison | InList | IsNull | StartsWith | Like
Predicate = Leaf | And | Or | Not | AlwaysTrue | AlwaysFalse
TRUE = AlwaysTrue()
FALSE = AlwaysFalse()


def and_(*parts: Predicate) -> Predicate:
    """Return the conjunction of `parts`, flattened and without AlwaysTrue."""
    flat = [p for part in parts for p in split_and(part)]
    if FALSE in flat:
        return FALSE
    return flat[0] if len(flat) == 1 else And(tuple(flat)) if flat else TRUE


def or_(*parts: Predicate) -> Predicate:
    """Return the disjunction of `parts`, flattened and without AlwaysFalse."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, Or) else (part,)) if p != FALSE]
    if TRUE in flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Or(tuple(flat)) if flat else FALSE


def split_and(pred: Predicate) -> list[Predicate]:
    """Return the conjuncts of `pred`; empty if it is always true."""
    if isinstance(pred, And):
        return [p for part in pred.parts for p in split_and(part)]
    return [] if isinstance(pred, AlwaysTrue) else [pred]


def is_partition(column: str, value: Any) -> Comparison:
    """Return the test that a partition column has exactly one value."""
    zero = isinstance(value, float) and value == 0
    return Comparison("is" if zero else "<=>" if value is None else "=", column, value)


def exactly(pred: Predicate) -> Predicate:
    """Return `pred` with the null-safe equalities among its conjuncts as tests of exactly one partition value."""
    return and_(*map(_exactly, split_and(pred)))


def _exactly(pred: Predicate) -> Predicate:
    return is_partition(pred.column, pred.value) if isinstance(pred, Comparison) and pred.op == "<=>" else pred


def columns_of(pred: Predicate) -> frozenset[str]:
    """Return the columns that `pred` reads."""
    return frozenset(leaf.column for leaf in _leaves(pred))


def _leaves(pred: Predicate) -> Iterator[Leaf]:
    if isinstance(pred, And | Or):
        for part in pred.parts:
            yield from _leaves(part)
    elif isinstance(pred, Not):
        yield from _leaves(pred.part)
    elif not isinstance(pred, AlwaysTrue | AlwaysFalse):
        yield pred


def without_blanks(pred: Predicate, columns: Collection[str]) -> Predicate:
    """Return `pred` without trailing blanks in the values that it compares with `columns`."""

    def cut(leaf: Leaf) -> Leaf:
        if leaf.column not in columns:
            return leaf
        if isinstance(leaf, Comparison):
            return replace(leaf, value=_cut(leaf.value))
        return replace(leaf, values=tuple(map(_cut, leaf.values))) if isinstance(leaf, InList) else leaf

    return _map_leaves(pred, cut)


def _cut(value: Any) -> Any:
    return value.rstrip(" ") if isinstance(value, str) else value


def _map_leaves(pred: Predicate, change: Callable[[Leaf], Leaf]) -> Predicate:
    if isinstance(pred, And | Or):
        return type(pred)(tuple(_map_leaves(p, change) for p in pred.parts))
    if isinstance(pred, Not):
        return Not(_map_leaves(pred.part, change))
    return pred if isinstance(pred, AlwaysTrue | AlwaysFalse) else change(pred)


# ------------------------------------------------------------------------------------------------- rows


def evaluate(pred: Predicate, values: Mapping[str, Any]) -> bool | None:
    """Return whether `pred` holds for a row, or None for unknown.

    Raises:
        KeyError: the row lacks a column of the predicate.
        ArgumentError: a column is compared with a value of another type.
    """
    if isinstance(pred, And):
        return _all(evaluate(p, values) for p in pred.parts)
    if isinstance(pred, Or):
        opposite = _all(_opposite(evaluate(p, values)) for p in pred.parts)
        return _opposite(opposite)
    if isinstance(pred, Not):
        return _opposite(evaluate(pred.part, values))
    if isinstance(pred, AlwaysTrue | AlwaysFalse):
        return isinstance(pred, AlwaysTrue)
    try:
        return _evaluate_leaf(pred, values[pred.column])
    except TypeError:
        raise ArgumentError(f"The column '{pred.column}' is compared with a value of another type.") from None


def _opposite(value: bool | None) -> bool | None:  # noqa: FBT001 - a truth value is the operand here
    return None if value is None else not value


def _all(values: Iterator[bool | None]) -> bool | None:
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _evaluate_leaf(pred: Leaf, value: Any) -> bool | None:
    if isinstance(pred, IsNull):
        return (value is None) is not pred.negated
    if isinstance(pred, Comparison) and pred.op in _NULL_SAFE:
        if value is None or pred.value is None:
            return value is None and pred.value is None
        return order(value, pred.value) == 0 and (pred.op == "<=>" or _sign(value) == _sign(pred.value))
    if value is None:
        return None
    if isinstance(pred, Comparison):
        return None if pred.value is None else _HOLDS[pred.op](order(value, pred.value))
    if isinstance(pred, StartsWith):
        return _starts_with(value, pred.prefix)
    if isinstance(pred, Like):
        return re.fullmatch(pattern_regex(pred.pattern), value, re.DOTALL) is not None
    if any(v is not None and order(value, v) == 0 for v in pred.values):
        return not pred.negated
    return None if None in pred.values else pred.negated


def _starts_with(value: Any, prefix: str | bytes) -> bool:
    if isinstance(value, type(prefix)):
        return value[: len(prefix)] == prefix
    raise TypeError(f"{value!r} cannot start with {prefix!r}")


def order(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 as `a` sorts before, with or after `b`; neither is null.

    Raises:
        TypeError: the values are not comparable.
    """
    if a == b:
        return 0
    if a < b:
        return -1
    if a > b:
        return 1
    return int(_is_nan(a)) - int(_is_nan(b))


def _sign(value: Any) -> float:
    return math.copysign(1, value) if isinstance(value, float) and value == 0 else 0


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


_HOLDS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0,
    "!=": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


# ------------------------------------------------------------------------------------------------- statistics


_NONE: frozenset[str] = frozenset()


def may_match(pred: Predicate, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
    """Return False only if the statistics prove that no row of the file satisfies `pred`.

    Some writers exclude NaN from the bounds of floating point columns. A test that NaN satisfies therefore uses the
    bounds only if another part of the predicate excludes NaN.
    """
    return _may(push_not(pred), stats, row_count, _NONE)


def _may(pred: Predicate, stats: Mapping[str, ColumnStats], row_count: int, numbers: frozenset[str]) -> bool:
    if isinstance(pred, And):
        numbers = numbers.union(p.column for p in split_and(pred) if _wants_number(p))
        return all(_may(p, stats, row_count, numbers) for p in pred.parts)
    if isinstance(pred, Or):
        return any(_may(p, stats, row_count, numbers) for p in pred.parts)
    if isinstance(pred, AlwaysTrue | AlwaysFalse):
        return isinstance(pred, AlwaysTrue)
    leaf = pred.part if isinstance(pred, Not) else pred
    column = stats.get(leaf.column) if isinstance(leaf, Leaf) else None
    if column is None:
        return True
    all_null = column.null_count is not None and column.null_count >= row_count
    if isinstance(pred, IsNull):
        return not all_null if pred.negated else column.null_count != 0
    if isinstance(pred, Comparison) and pred.op in _NULL_SAFE and pred.value is None:
        return column.null_count != 0
    if all_null:
        return False
    if isinstance(pred, Not) or (pred.column not in numbers and _holds_for_nan(pred)):
        return True
    try:
        return _may_leaf(pred, _known(column.min), _known(column.max))
    except TypeError:
        return True


def _holds_for_nan(pred: Leaf) -> bool:
    """Return whether NaN satisfies a test of a floating point column; False for columns of other types."""
    values = pred.values if isinstance(pred, InList) else (pred.value,) if isinstance(pred, Comparison) else ()
    if not any(isinstance(v, float) for v in values):
        return False
    try:
        return _evaluate_leaf(pred, math.nan) is True
    except TypeError:
        return False


def _wants_number(pred: Predicate) -> TypeGuard[Comparison]:
    """Return whether NaN never satisfies `pred`."""
    return isinstance(pred, Comparison) and isinstance(pred.value, float) and not _holds_for_nan(pred)


def _known(bound: Any) -> Any:
    return None if _is_nan(bound) else bound


def _may_leaf(pred: Comparison | InList | StartsWith | Like, low: Any, high: Any) -> bool:
    if isinstance(pred, StartsWith | Like):
        prefix = pred.prefix if isinstance(pred, StartsWith) else pattern_prefix(pred.pattern)
        return (low is None or low[: len(prefix)] <= prefix) and (high is None or high >= prefix)
    if isinstance(pred, InList):
        if not pred.negated:
            return any(v is not None and _within(v, low, high) for v in pred.values)
        return None not in pred.values and not (low is not None and low == high and low in pred.values)
    value = pred.value
    if value is None:
        return False
    if pred.op == "=" or pred.op in _NULL_SAFE:
        return _within(value, low, high)
    if pred.op == "!=":
        return low is None or high is None or not (order(low, value) == 0 == order(high, value))
    if pred.op in ("<", "<="):
        return low is None or _HOLDS[pred.op](order(low, value))
    return high is None or _HOLDS[pred.op](order(high, value))


def _within(value: Any, low: Any, high: Any) -> bool:
    return (low is None or order(low, value) <= 0) and (high is None or order(value, high) <= 0)


_OPPOSITES: dict[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def push_not(pred: Predicate) -> Predicate:
    """Return an equivalent predicate in which Not applies to StartsWith, Like and ``is`` only."""
    if isinstance(pred, And | Or):
        return type(pred)(tuple(push_not(p) for p in pred.parts))
    return _negate(pred.part) if isinstance(pred, Not) else pred


def _negate(pred: Predicate) -> Predicate:
    if isinstance(pred, Not):
        return push_not(pred.part)
    if isinstance(pred, And):
        return Or(tuple(_negate(p) for p in pred.parts))
    if isinstance(pred, Or):
        return And(tuple(_negate(p) for p in pred.parts))
    if isinstance(pred, AlwaysTrue | AlwaysFalse):
        return FALSE if isinstance(pred, AlwaysTrue) else TRUE
    if isinstance(pred, InList):
        return InList(pred.column, pred.values, not pred.negated)
    if isinstance(pred, IsNull):
        return IsNull(pred.column, not pred.negated)
    if isinstance(pred, StartsWith | Like) or pred.op == "is":
        return Not(pred)
    if pred.op != "<=>":
        return Comparison(_OPPOSITES[pred.op], pred.column, pred.value)
    null = IsNull(pred.column, negated=pred.value is None)
    return null if pred.value is None else Or((Comparison("!=", pred.column, pred.value), null))


def project(pred: Predicate, columns: Sequence[str] | frozenset[str]) -> Predicate:
    """Return the strongest part of `pred` that reads only `columns`; it is true for every row that satisfies `pred`."""
    return _project(push_not(pred), frozenset(columns))


def _project(pred: Predicate, columns: frozenset[str]) -> Predicate:
    if isinstance(pred, And):
        return and_(*(_project(p, columns) for p in pred.parts))
    if isinstance(pred, Or):
        return or_(*(_project(p, columns) for p in pred.parts))
    return pred if columns_of(pred) <= columns else TRUE


# ------------------------------------------------------------------------------------------------- fixed values


def fixed_values(pred: Predicate, columns: Sequence[str]) -> list[tuple[Any, ...]] | None:
    """Return every combination of values that `columns` can have in a matching row.

    None if the predicate does not fix all of them by ``=``, IN or IS NULL, if there are more than 1000 combinations,
    or if a value is a number with several encodings (0.0 and -0.0, NaN).
    """
    if not columns:
        return None
    pred = push_not(pred)
    if isinstance(pred, Or):
        union: dict[tuple[Any, ...], None] = {}
        for part in pred.parts:
            found = fixed_values(part, columns)
            if found is None:
                return None
            union.update(dict.fromkeys(found))
        return list(union) if len(union) <= MAX_COMBINATIONS else None
    choices: dict[str, list[Any]] = {}
    for part in split_and(pred):
        fixed = _fixed_column(part)
        if fixed is not None and not any(isinstance(v, float) and (v == 0 or _is_nan(v)) for v in fixed[1]):
            column, values = fixed
            choices[column] = [v for v in choices[column] if v in values] if column in choices else values
    if any(c not in choices for c in columns):
        return None
    count = 1
    for c in columns:
        count *= len(choices[c])
    return list(itertools.product(*(choices[c] for c in columns))) if count <= MAX_COMBINATIONS else None


def _fixed_column(pred: Predicate) -> tuple[str, list[Any]] | None:
    if isinstance(pred, Comparison) and pred.op in ("=", "<=>"):
        return pred.column, [] if pred.value is None and pred.op == "=" else [pred.value]
    if isinstance(pred, InList) and not pred.negated:
        return pred.column, list(dict.fromkeys(v for v in pred.values if v is not None))
    if isinstance(pred, IsNull) and not pred.negated:
        return pred.column, [None]
    if isinstance(pred, Or):
        found = [_fixed_column(p) for p in pred.parts]
        names = {f[0] for f in found if f is not None}
        if None not in found and len(names) == 1:
            return names.pop(), list(dict.fromkeys(v for f in found if f is not None for v in f[1]))
    return None


# ------------------------------------------------------------------------------------------------- JSON


def to_json(pred: Predicate) -> str:
    """Return `pred` as JSON text."""
    return json.dumps(to_plain(pred), separators=(",", ":"))


def from_json(text: str) -> Predicate:
    """Parse the result of `to_json`.

    Raises:
        ArgumentError: the text is not a predicate.
    """
    try:
        return from_plain(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as e:
        raise ArgumentError(f"The predicate {text[:200]!r} cannot be read: {type(e).__name__} {e}.") from e


def to_plain(pred: Predicate) -> list[Any]:
    """Return `pred` as JSON values: a list that begins with the operator."""
    if isinstance(pred, And | Or):
        return ["and" if isinstance(pred, And) else "or", *(to_plain(p) for p in pred.parts)]
    if isinstance(pred, Not):
        return ["not", to_plain(pred.part)]
    if isinstance(pred, AlwaysTrue | AlwaysFalse):
        return ["true" if isinstance(pred, AlwaysTrue) else "false"]
    if isinstance(pred, Comparison):
        return [pred.op, pred.column, value_to_plain(pred.value)]
    if isinstance(pred, InList):
        return ["not in" if pred.negated else "in", pred.column, [value_to_plain(v) for v in pred.values]]
    if isinstance(pred, IsNull):
        return ["is not null" if pred.negated else "is null", pred.column]
    if isinstance(pred, Like):
        return ["like", pred.column, pred.pattern]
    return ["starts with", pred.column, value_to_plain(pred.prefix)]


def from_plain(raw: Any) -> Predicate:
    """Rebuild a predicate from its JSON values."""
    op, *rest = raw
    if op in ("and", "or"):
        parts = tuple(from_plain(p) for p in rest)
        return And(parts) if op == "and" else Or(parts)
    if op == "not":
        return Not(from_plain(rest[0]))
    if op in ("true", "false"):
        return TRUE if op == "true" else FALSE
    column = str(rest[0])
    if op in ("in", "not in"):
        return InList(column, tuple(value_from_plain(v) for v in rest[1]), op == "not in")
    if op in ("is null", "is not null"):
        return IsNull(column, op == "is not null")
    if op == "starts with":
        prefix = value_from_plain(rest[1])
        if not isinstance(prefix, str | bytes):
            raise ValueError(f"{prefix!r} is not a prefix")
        return StartsWith(column, prefix)
    if op == "like":
        return Like(column, str(rest[1]))
    if op not in get_args(Operator):
        raise ValueError(f"unknown operator {op!r}")
    return Comparison(op, column, value_from_plain(rest[1]))


def value_to_plain(value: Any) -> Any:
    """Return a value of `spec.rows` as JSON; values without a JSON form become tagged objects."""
    if isinstance(value, Timestamp):
        return {"timestamp": list(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value


def value_from_plain(raw: Any) -> Any:
    """Rebuild a value from its JSON."""
    if isinstance(raw, list):
        raise ValueError("a list is not a value")  # noqa: TRY004 - about the text, not about the type of an argument
    if not isinstance(raw, dict):
        return raw
    ((tag, body),) = raw.items()
    if tag == "timestamp":
        return Timestamp(*body)
    if tag == "decimal":
        return Decimal(body)
    return base64.b64decode(body) if tag == "bytes" else float.fromhex(body)

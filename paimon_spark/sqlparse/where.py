"""Translation of filter text to a predicate: over partition columns (`where` of a procedure), or over any columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any

from sqlglot import exp

from paimon_spark.errors import ArgumentError, SqlSyntaxError, did_you_mean
from paimon_spark.spec.like_patterns import normal_pattern, simple_pattern
from paimon_spark.spec.predicate import (
    FALSE,
    TRUE,
    Comparison,
    InList,
    IsNull,
    Like,
    Not,
    Operator,
    Predicate,
    StartsWith,
    and_,
    or_,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, TypeRoot
from paimon_spark.sqlparse.dialect import parse_statements
from paimon_spark.sqlparse.filter_values import Given, bare, column_value, day_of, given_value
from paimon_spark.sqlparse.numbers import compare_after, compare_beyond, holds, is_numeric
from paimon_spark.sqlparse.tokens import join_touching_strings

_OPERATORS: dict[type, tuple[Operator, Operator]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.NullSafeEQ: ("<=>", "<=>"),
    exp.NullSafeNEQ: ("<=>", "<=>"),
}
"""Operator as written, and with its operands swapped; IS DISTINCT FROM is the negation of ``<=>``."""
_PARTS: dict[type, tuple[str, ...]] = {
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Like: ("this", "expression", "negate"),
}
"""The parts of a condition that are read; others are refused: BETWEEN SYMMETRIC, IN (SELECT …)."""
_WORDS = {"trycast": "cast", "regexplike": "rlike"}
"""The words of SQL for expressions with another name in sqlglot."""
_LONGEST_PATTERN = 1000


def parse_where(text: str, schema: TableSchema, *, zone: tzinfo = UTC, parameter: str = "where") -> Predicate:
    """Return the predicate of a filter over partition columns.

    Supported: comparisons of a column with a literal, IN, BETWEEN, LIKE, IS [NOT] NULL, IS [NOT] TRUE or FALSE of a
    boolean column, IS [NOT] DISTINCT FROM, AND, OR, NOT, TRUE, FALSE. Numbers compare as in Spark: FLOAT columns as
    DOUBLE.

    Raises:
        ArgumentError: the text does not parse, uses another column or construct, or a value does not fit.
    """
    if not schema.partition_keys:
        raise ArgumentError(
            f"The argument '{parameter}' needs a partitioned table, and this table has no partition columns.",
            hint="Leave the argument out.",
        )
    return _Reader(text, schema, zone, parameter, schema.partition_keys).whole(_tree(text, parameter))


def parse_filter(text: str, schema: TableSchema, *, zone: tzinfo = UTC, parameter: str = "filter") -> Predicate:
    """Return the predicate of a filter over any columns of a table; it supports the constructs of `parse_where`.

    Raises:
        ArgumentError: the text does not parse, uses another construct, or a value does not fit its column.
        NotFoundError: there is no such column.
    """
    return _Reader(text, schema, zone, parameter, schema.field_names).whole(_tree(text, parameter))


def _tree(text: str, parameter: str) -> Any:
    try:
        trees = parse_statements(join_touching_strings(text))
    except SqlSyntaxError as e:
        raise ArgumentError(f"The argument '{parameter}' ({text}) is not a condition. {e.message}", hint=e.hint) from e
    if len(trees) != 1:
        raise ArgumentError(f"The argument '{parameter}' ({text}) is not one condition.", hint="Write one condition.")
    return trees[0]


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    schema: TableSchema
    zone: tzinfo
    parameter: str
    columns: tuple[str, ...]

    def whole(self, tree: Any) -> Predicate:
        try:
            return self.condition(tree)
        except RecursionError:
            raise ArgumentError(
                f"The argument '{self.parameter}' of {len(self.text)} characters is nested too deeply.",
                hint="Write fewer conditions; many values of one column fit into IN (…).",
            ) from None

    def condition(self, tree: Any) -> Predicate:
        tree = bare(tree)
        for kind, read in _CONDITIONS.items():
            if isinstance(tree, kind) and not _clauses(tree):
                return read(self, tree)
        raise self._unsupported(tree)

    def connective(self, tree: Any) -> Predicate:
        join = and_ if isinstance(tree, exp.And) else or_
        return join(self.condition(tree.left), self.condition(tree.right))

    def negation(self, tree: Any) -> Predicate:
        inner = self.condition(tree.this)
        if isinstance(inner, IsNull):
            return IsNull(inner.column, not inner.negated)
        if isinstance(inner, InList):
            return InList(inner.column, inner.values, not inner.negated)
        return Not(inner)

    def truth(self, tree: Any) -> Predicate:
        return TRUE if tree.this else FALSE

    def comparison(self, tree: Any) -> Predicate:
        straight, swapped = _OPERATORS[type(tree)]
        left, right = bare(tree.left), bare(tree.right)
        if isinstance(left, exp.Column):
            column, side, op = self._column(left), right, straight
        elif isinstance(right, exp.Column):
            column, side, op = self._column(right), left, swapped
        else:
            raise self._unsupported(right if isinstance(left, exp.Literal) else left)
        found = self._compare(op, column, self._given(side))
        return Not(found) if isinstance(tree, exp.NullSafeNEQ) else found

    def _compare(self, op: Operator, column: str, given: Given) -> Predicate:
        t = self.schema.field(column).type
        if given.kind == "null":
            if op == "<=>":
                return IsNull(column)
            raise ArgumentError(
                f"The argument '{self.parameter}' ({self.text}) compares with NULL, which is never true.",
                hint="Write IS NULL or IS NOT NULL.",
            )
        if is_numeric(t) and isinstance(given.value, Decimal) and not holds(t, given.value):
            return compare_beyond(op, column, t, given.value)
        if given.kind == "timestamp" and isinstance(t, AtomicType) and t.root is TypeRoot.DATE:
            day, starts = day_of(given, self.zone, self.parameter)
            return Comparison(op, column, day) if starts else compare_after(op, column, day)
        return Comparison(op, column, self._value(given, column))

    def in_list(self, tree: Any) -> Predicate:
        if not tree.expressions:
            raise self._unsupported(tree)
        column = self._column(tree.this)
        values: list[Any] = []
        for item in map(self._given, tree.expressions):
            found = IsNull(column) if item.kind == "null" else self._compare("=", column, item)
            if isinstance(found, Comparison):
                values.append(found.value)
            elif isinstance(found, IsNull):
                values.append(None)
        return InList(column, tuple(values))

    def between(self, tree: Any) -> Predicate:
        column = self._column(tree.this)
        low, high = self._given(tree.args["low"]), self._given(tree.args["high"])
        return and_(self._compare(">=", column, low), self._compare("<=", column, high))

    def is_value(self, tree: Any) -> Predicate:
        column = self._column(tree.this)
        if isinstance(tree.expression, exp.Null):
            return IsNull(column)
        if isinstance(tree.expression, exp.Boolean) and self._is(column, TypeRoot.BOOLEAN):
            return Comparison("<=>", column, bool(tree.expression.this))
        raise self._unsupported(tree)

    def like(self, tree: Any) -> Predicate:
        escape = "\\"
        if isinstance(tree, exp.Escape):
            given, tree = bare(tree.expression), tree.this
            if not isinstance(tree, exp.Like) or not isinstance(given, exp.Literal) or len(given.this) != 1:
                raise self._unsupported(tree)
            escape = given.this
        column, written = self._column(tree.this), bare(tree.expression)
        is_text = isinstance(written, exp.RawString) or (isinstance(written, exp.Literal) and written.is_string)
        if not is_text or _clauses(tree) or not self._is(column, TypeRoot.CHAR, TypeRoot.VARCHAR):
            raise self._unsupported(tree)
        try:
            pattern = normal_pattern(written.this, escape)
        except ValueError as e:
            raise ArgumentError(
                f"In the argument '{self.parameter}': {e}.", hint=f"A plain '{escape}' is written twice."
            ) from None
        found = self._like(tree, column, pattern)
        return Not(found) if tree.args.get("negate") else found

    def _like(self, tree: Any, column: str, pattern: str) -> Predicate:
        simple = simple_pattern(pattern)
        padded = simple is None or not simple[1] or simple[0].endswith(" ")
        if padded and self._is(column, TypeRoot.CHAR):
            raise self._unsupported(tree, " over a CHAR column, whose values may end with blanks")
        if simple is not None:
            text, is_prefix = simple
            return StartsWith(column, text) if is_prefix else Comparison("=", column, text)
        if len(pattern) > _LONGEST_PATTERN:
            raise self._unsupported(tree, f" with a pattern of more than {_LONGEST_PATTERN} characters")
        return Like(column, pattern)

    def flag(self, tree: Any) -> Predicate:
        column = self._column(tree)
        if self._is(column, TypeRoot.BOOLEAN):
            return Comparison("=", column, value=True)
        raise self._unsupported(tree)

    def _is(self, column: str, *roots: TypeRoot) -> bool:
        t = self.schema.field(column).type
        return isinstance(t, AtomicType) and t.root in roots

    def _column(self, tree: Any) -> str:
        tree = bare(tree)
        if not isinstance(tree, exp.Column):
            raise self._unsupported(tree)
        name, keys = tree.name, self.columns
        if len(tree.parts) > 1:
            raise self._qualified(tree)
        same = [k for k in keys if k == name] or [k for k in keys if k.lower() == name.lower()]
        if same:
            return same[0]
        if keys == self.schema.field_names:
            self.schema.field(name)
        raise ArgumentError(
            f"The argument '{self.parameter}' ({self.text}) uses '{name}', but only partition columns "
            f"[{', '.join(keys)}] are allowed there.",
            hint=did_you_mean(name, keys),
        )

    def _qualified(self, tree: Any) -> ArgumentError:
        first, path = tree.parts[0].name, ".".join(p.name for p in tree.parts)
        if first.lower() in (n.lower() for n in self.schema.field_names):
            return self._unsupported(tree, f": it would be the member '{tree.name}' of the column '{first}'")
        return ArgumentError(
            f"The argument '{self.parameter}' ({self.text}) uses '{path}', which is no column.",
            hint=f"Name columns without a qualifier, as in '{tree.name}'.",
        )

    def _given(self, tree: Any) -> Given:
        try:
            given = given_value(tree)
        except ValueError as e:
            raise ArgumentError(
                f"The argument '{self.parameter}' ({self.text}) has {e}, which is not supported.",
                hint="Write the value itself, or cast a number or a text to a numeric type, or a text to a date or a "
                "timestamp, if that type has the value.",
            ) from None
        if given is None:
            raise self._unsupported(bare(tree))
        return given

    def _value(self, given: Given, column: str) -> Any:
        return column_value(given, self.schema.field(column).type, zone=self.zone, parameter=self.parameter)

    def _unsupported(self, tree: Any, more: str = "") -> ArgumentError:
        of_rows = self.columns == self.schema.field_names
        what, columns = ("rows", "columns") if of_rows else ("partitions", "partition columns")
        return ArgumentError(
            f"The argument '{self.parameter}' ({self.text}) cannot select {what} by {_word(tree)}{more}.",
            hint=f"Compare {columns} with literals: =, <>, <, <=, >, >=, <=>, IS DISTINCT FROM, IN, BETWEEN, LIKE of "
            "texts, IS NULL, IS TRUE and IS FALSE of booleans, AND, OR, NOT.",
        )


def _word(tree: Any) -> str:
    if isinstance(tree, exp.Literal):
        return "a literal where a column is expected"
    if isinstance(tree, exp.Column):
        return f"'{tree.table}.{tree.name}'" if tree.table else f"the column '{tree.name}' where a literal belongs"
    return f"the expression '{' '.join([_WORDS.get(tree.key, tree.key), *_clauses(tree)]).upper()}'"


def _clauses(tree: Any) -> list[str]:
    """Return the names of the clauses of a condition that change its meaning and that are not supported."""
    known = _PARTS.get(type(tree))
    return [] if known is None else [k for k, v in tree.args.items() if v and k not in known]


_CONDITIONS: dict[type | tuple[type, ...], Callable[[_Reader, Any], Predicate]] = {
    (exp.And, exp.Or): _Reader.connective,
    exp.Not: _Reader.negation,
    exp.Boolean: _Reader.truth,
    tuple(_OPERATORS): _Reader.comparison,
    exp.In: _Reader.in_list,
    exp.Between: _Reader.between,
    exp.Is: _Reader.is_value,
    (exp.Like, exp.Escape): _Reader.like,
    exp.Column: _Reader.flag,
}

"""Translation of filter text to a predicate: over partition columns (`where` of a procedure), or over any columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any

from sqlglot import exp

from paimon_spark.errors import ArgumentError, SqlSyntaxError, did_you_mean
from paimon_spark.spec.predicate import (
    FALSE,
    TRUE,
    Comparison,
    InList,
    IsNull,
    Not,
    Operator,
    Predicate,
    StartsWith,
    and_,
    or_,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, TypeRoot
from paimon_spark.sqlparse.casts import cast_number, cast_text
from paimon_spark.sqlparse.dialect import parse_statements
from paimon_spark.sqlparse.numbers import compare_beyond, holds, is_exact, number_of
from paimon_spark.sqlparse.tokens import join_touching_strings

_OPERATORS: dict[type, tuple[Operator, Operator]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.NullSafeEQ: ("<=>", "<=>"),
}
"""Operator as written, and with its operands swapped."""
_PARTS: dict[type, tuple[str, ...]] = {
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Like: ("this", "expression", "negate"),
}
"""The parts of a condition that are read; others are refused: BETWEEN SYMMETRIC, IN (SELECT …)."""
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def parse_where(text: str, schema: TableSchema, *, zone: tzinfo = UTC, parameter: str = "where") -> Predicate:
    """Return the predicate of a filter over partition columns.

    Supported: comparisons of a column with a literal, IN, BETWEEN, LIKE 'prefix%', IS NULL, AND, OR, NOT, TRUE, FALSE.

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
        tree = _bare(tree)
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
        left, right = _bare(tree.left), _bare(tree.right)
        if isinstance(left, exp.Column):
            column, side, op = self._column(left), right, straight
        elif isinstance(right, exp.Column):
            column, side, op = self._column(right), left, swapped
        else:
            raise self._unsupported(right if isinstance(left, exp.Literal) else left)
        return self._compare(op, column, side)

    def _compare(self, op: Operator, column: str, side: Any) -> Predicate:
        t, number = self.schema.field(column).type, number_of(side)
        if number is not None and is_exact(t) and not holds(t, number):
            return compare_beyond(op, column, t, number)
        value = self._nullable(side, column)
        if value is None and op == "<=>":
            return IsNull(column)
        return Comparison(op, column, self._known(value))

    def in_list(self, tree: Any) -> Predicate:
        if not tree.expressions:
            raise self._unsupported(tree)
        column = self._column(tree.this)
        return InList(column, tuple(self._nullable(i, column) for i in tree.expressions if self._is_held(i, column)))

    def _is_held(self, item: Any, column: str) -> bool:
        t, number = self.schema.field(column).type, number_of(item)
        return number is None or not is_exact(t) or holds(t, number)

    def between(self, tree: Any) -> Predicate:
        column = self._column(tree.this)
        return and_(self._compare(">=", column, tree.args["low"]), self._compare("<=", column, tree.args["high"]))

    def is_null(self, tree: Any) -> Predicate:
        column = self._column(tree.this)
        if isinstance(tree.expression, exp.Null):
            return IsNull(column)
        raise self._unsupported(tree)

    def like(self, tree: Any) -> Predicate:
        column = self._column(tree.this)
        t = self.schema.field(column).type
        pattern = _bare(tree.expression)
        is_text = isinstance(t, AtomicType) and t.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
        if not is_text or not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise self._unsupported(tree)
        body, wildcard = pattern.this.removesuffix("%"), pattern.this.endswith("%")
        if any(c in body for c in "%_\\"):
            raise self._unsupported(tree)
        found = StartsWith(column, body) if wildcard else Comparison("=", column, body)
        return Not(found) if tree.args.get("negate") else found

    def flag(self, tree: Any) -> Predicate:
        column = self._column(tree)
        t = self.schema.field(column).type
        if isinstance(t, AtomicType) and t.root is TypeRoot.BOOLEAN:
            return Comparison("=", column, value=True)
        raise self._unsupported(tree)

    def _column(self, tree: Any) -> str:
        tree = _bare(tree)
        if not isinstance(tree, exp.Column):
            raise self._unsupported(tree)
        name, keys = tree.name, self.columns
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

    def _known(self, value: Any) -> Any:
        if value is None:
            raise ArgumentError(
                f"The argument '{self.parameter}' ({self.text}) compares with NULL, which is never true.",
                hint="Write IS NULL or IS NOT NULL.",
            )
        return value

    def _nullable(self, tree: Any, column: str) -> Any:
        t = self.schema.field(column).type
        tree = _bare(tree)
        if isinstance(tree, exp.Cast | exp.TryCast) and isinstance(_bare(tree.this), exp.Literal | exp.Neg):
            tree = _bare(tree.this)
        sign = 1
        if isinstance(tree, exp.Neg):
            sign, tree = -1, _bare(tree.this)
            if isinstance(tree, exp.Cast):
                tree = _bare(tree.this)
        if isinstance(tree, exp.Null):
            return None
        if isinstance(tree, exp.HexString) and isinstance(t, AtomicType) and t.root in _BYTES:
            return bytes.fromhex(tree.this.zfill(len(tree.this) + len(tree.this) % 2))
        if isinstance(tree, exp.Boolean):
            return cast_text(str(tree.this).lower(), t, zone=self.zone, parameter=self.parameter)
        if not isinstance(tree, exp.Literal):
            raise self._unsupported(tree)
        if tree.is_string and sign > 0:
            return cast_text(tree.this, t, zone=self.zone, parameter=self.parameter)
        try:
            number = Decimal(tree.this) * sign
        except ArithmeticError:
            raise self._unsupported(tree) from None
        return cast_number(number, t, zone=self.zone, parameter=self.parameter)

    def _unsupported(self, tree: Any) -> ArgumentError:
        of_rows = self.columns == self.schema.field_names
        what, columns = ("rows", "columns") if of_rows else ("partitions", "partition columns")
        return ArgumentError(
            f"The argument '{self.parameter}' ({self.text}) cannot select {what} by {_word(tree)}.",
            hint=f"Compare {columns} with literals: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE 'x%', IS NULL, "
            "AND, OR, NOT.",
        )


def _word(tree: Any) -> str:
    if isinstance(tree, exp.Literal):
        return "a literal where a column is expected"
    if isinstance(tree, exp.Column):
        return f"the column '{tree.name}' where a literal belongs"
    return f"the expression '{' '.join([tree.key, *_clauses(tree)]).upper()}'"


def _clauses(tree: Any) -> list[str]:
    """Return the names of the clauses of a condition that change its meaning and that are not supported."""
    known = _PARTS.get(type(tree))
    return [] if known is None else [k for k, v in tree.args.items() if v and k not in known]


def _bare(tree: Any) -> Any:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


_CONDITIONS: dict[type | tuple[type, ...], Callable[[_Reader, Any], Predicate]] = {
    (exp.And, exp.Or): _Reader.connective,
    exp.Not: _Reader.negation,
    exp.Boolean: _Reader.truth,
    tuple(_OPERATORS): _Reader.comparison,
    exp.In: _Reader.in_list,
    exp.Between: _Reader.between,
    exp.Is: _Reader.is_null,
    exp.Like: _Reader.like,
    exp.Column: _Reader.flag,
}

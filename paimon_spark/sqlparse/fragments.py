"""SQL fragments in arguments of merge_into: expressions, lists and assignments, with all columns qualified.

A fragment is validated on its tree but not generated from it: the source text is kept, and only the spans of column
names are replaced. Fragments are later parsed as expressions, so a fragment cannot be a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from paimon_spark.errors import ArgumentError, ErrorKind, SqlSyntaxError, did_you_mean
from paimon_spark.spec.identifier import split_name
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.sqlparse.dialect import CallNode, parse_statements
from paimon_spark.sqlparse.tokens import PieceKind, join_touching_strings, pieces

STAR = "*"
_REFUSED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.DDL, exp.DML, exp.Command, exp.Drop, exp.Set, exp.Use, CallNode), "a statement"),
    ((exp.Query,), "a subquery"),
    ((exp.AggFunc,), "an aggregate function"),
    ((exp.Window,), "a window function"),
    ((exp.UDTF,), "a function that yields rows"),
    ((exp.Star,), "a '*'"),
    ((exp.Placeholder, exp.Parameter), "a parameter marker"),
)
_WORDS = re.compile(
    r"(?:current_(?:date|timestamp|time|user|catalog|database|schema)|localtimestamp|(?:session_)?user"
    r"|year|quarter|month|week|day|dayofyear|hour|minute|second|millisecond|microsecond)$",
    re.IGNORECASE,
)
"""Function and unit names that parse as columns; a column of that name takes precedence."""


@dataclass(frozen=True, slots=True)
class Side:
    """A table in the scope of fragments: its role, its names, its columns, and its alias in the generated query."""

    what: str
    names: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    alias: str

    @property
    def shown(self) -> str:
        """Return the name for messages."""
        return self.names[0][-1]

    def column(self, name: str) -> str | None:
        """Return the column for a case-insensitive name, or None."""
        exact = [c for c in self.columns if c == name]
        return next(iter(exact or [c for c in self.columns if c.lower() == name.lower()]), None)

    def reference(self, column: str) -> str:
        """Return the reference to a column in the generated query."""
        return f"{quoted_name(self.alias)}.{quoted_name(column)}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables whose columns a fragment may use, and all known tables."""

    visible: tuple[Side, ...]
    known: tuple[Side, ...]


def resolve_expression(text: str, scope: Scope, parameter: str) -> str:
    """Return one expression with its columns qualified by table aliases.

    Raises:
        ArgumentError: the text is not a single expression, contains a subquery, an aggregate or another unsupported
            construct, or names an unknown column; `parameter` is the argument name for the message.
    """
    plain = join_touching_strings(text)
    tree = _single(plain, parameter)
    spans: dict[tuple[int, int], str] = {}
    for column in tree.find_all(exp.Column):
        start, end, reference = _reference(column, scope, parameter, text)
        spans[start, end] = reference
    for (start, end), reference in sorted(spans.items(), reverse=True):
        plain = plain[:start] + reference + plain[end + 1 :]
    return plain


def _single(text: str, parameter: str) -> Any:
    try:
        trees = parse_statements(text)
    except SqlSyntaxError as e:
        raise ArgumentError(
            f"The argument '{parameter}' ({text}) is not an expression. {e.message}", hint=e.hint
        ) from e
    if len(trees) != 1:
        raise ArgumentError(f"The argument '{parameter}' ({text}) is not one expression.", hint="Write one expression.")
    for kinds, what in _REFUSED:
        if trees[0].find(*kinds) is not None:
            raise ArgumentError(
                f"The argument '{parameter}' ({text}) contains {what}, which is not allowed there.",
                hint="Compute it in a view of 'source_sqls' and use that as the source.",
            )
    if isinstance(trees[0], exp.Alias):
        raise ArgumentError(
            f"The argument '{parameter}' ({text}) gives an expression an alias.", hint="Leave the alias out."
        )
    return trees[0]


def _reference(column: Any, scope: Scope, parameter: str, text: str) -> tuple[int, int, str]:
    """Return the span of a column reference, including its table, and its replacement."""
    parts = [(p.name, p.meta.get("start"), p.meta.get("end")) for p in column.parts]
    if any(start is None for _, start, _ in parts):
        raise ArgumentError(f"The argument '{parameter}' ({text}) cannot be parsed.", hint="Simplify it.")
    names = [name for name, _, _ in parts]
    for n in range(len(parts) - 1, 0, -1):
        side = _called(names[:n], scope.known)
        if side is not None:
            return parts[0][1], parts[n][2], _of_side(side, names[n], scope, parameter, text)
    found = _unqualified(names, scope, parameter, text)
    return parts[0][1], parts[0][2], found


def _called(names: Sequence[str], sides: Sequence[Side]) -> Side | None:
    wanted = [n.lower() for n in names]
    return next((s for s in sides for name in s.names if [p.lower() for p in name] == wanted), None)


def _of_side(side: Side, name: str, scope: Scope, parameter: str, text: str) -> str:
    if side not in scope.visible:
        allowed = " and ".join(s.what for s in scope.visible)
        raise ArgumentError(
            f"The argument '{parameter}' ({text}) uses '{side.shown}.{name}', but only columns of the {allowed} "
            "are allowed there.",
            hint=f"The columns of the {allowed} are {', '.join(c for s in scope.visible for c in s.columns)}.",
        )
    column = side.column(name)
    if column is None:
        raise _no_column(f"{side.shown}.{name}", name, (side,), parameter, text)
    return side.reference(column)


def _unqualified(names: Sequence[str], scope: Scope, parameter: str, text: str) -> str:
    name = names[0]
    holders = [(s, c) for s in scope.visible if (c := s.column(name)) is not None]
    if len(holders) > 1:
        choices = " or ".join(f"{s.shown}.{c}" for s, c in holders)
        raise ArgumentError(
            f"The argument '{parameter}' ({text}) uses '{name}', which both tables have.", hint=f"Write {choices}."
        )
    if holders:
        side, column = holders[0]
        return side.reference(column)
    if len(names) == 1 and _WORDS.match(name):
        return name
    raise _no_column(".".join(names), name, scope.visible, parameter, text)


def _no_column(written: str, name: str, sides: Sequence[Side], parameter: str, text: str) -> ArgumentError:
    places = " nor ".join(f"the {s.what} {s.shown}" for s in sides)
    columns = [c for s in sides for c in s.columns]
    return ArgumentError(
        f"The argument '{parameter}' ({text}) names the column '{written}', which "
        + (f"neither {places} has." if len(sides) > 1 else f"{places} does not have."),
        hint=f"{did_you_mean(name, columns)} The columns are {', '.join(columns)}.".strip(),
        kind=ErrorKind.COLUMN_NOT_FOUND,
    )


def resolve_settings(text: str, target: Side, scope: Scope, parameter: str) -> dict[str, str]:
    """Return the expressions of ``column = expression, …`` by target column.

    Raises:
        ArgumentError: an item is not an assignment, or its column is duplicated or unknown.
    """
    out: dict[str, str] = {}
    for piece in split_list(text, parameter):
        name, value = _assignment(piece, parameter)
        column = _assigned(name, target, parameter, text)
        if column in out:
            raise ArgumentError(f"The argument '{parameter}' sets the column '{column}' twice.", hint="Set it once.")
        out[column] = resolve_expression(value, scope, parameter)
    return out


def _assignment(piece: str, parameter: str) -> tuple[str, str]:
    for code in _top_level(piece):
        if code.text == "=":
            return piece[: code.start].strip(), piece[code.start + 1 :].strip()
    raise ArgumentError(
        f"'{piece}' in the argument '{parameter}' is not an assignment.",
        hint="Write column = expression, separated by commas.",
    )


def _assigned(name: str, target: Side, parameter: str, text: str) -> str:
    try:
        *table, column = split_name(name)
    except ArgumentError:
        raise ArgumentError(
            f"'{name}' in the argument '{parameter}' ({text}) is not a column name.", hint="Write column = expression."
        ) from None
    found = target.column(column)
    if found is None or (table and _called(table, (target,)) is None):
        raise _no_column(name, column, (target,), parameter, text)
    return found


def resolve_values(text: str, source: Side, scope: Scope, parameter: str) -> list[str]:
    """Return the expressions of ``expression, …``; ``*`` expands to all columns of the source.

    Raises:
        ArgumentError: an item is not an expression.
    """
    out: list[str] = []
    for piece in split_list(text, parameter):
        if _is_star(piece, source):
            out += [source.reference(c) for c in source.columns]
        else:
            out.append(resolve_expression(piece, scope, parameter))
    return out


def _is_star(piece: str, source: Side) -> bool:
    if piece == STAR:
        return True
    table, dot, last = piece.rpartition(".")
    return bool(dot) and last.strip() == STAR and _called(split_name(table), (source,)) is not None


def split_list(text: str, parameter: str) -> list[str]:
    """Split `text` at commas outside quotes and brackets.

    Raises:
        ArgumentError: an item is empty.
    """
    cuts = [code.start for code in _top_level(text) if code.text == ","]
    parts = [text[a:b].strip() for a, b in zip([0, *(c + 1 for c in cuts)], [*cuts, len(text)], strict=True)]
    if not all(parts):
        raise ArgumentError(
            f"The argument '{parameter}' ({text}) has an empty list item.", hint="Separate the items with one comma."
        )
    return parts


def _top_level(text: str) -> Iterator[Any]:
    """Yield the code pieces outside brackets."""
    depth = 0
    for piece in pieces(text):
        if piece.kind is not PieceKind.CODE:
            continue
        depth -= piece.text in (")", "]")
        if depth == 0:
            yield piece
        depth += piece.text in ("(", "[")

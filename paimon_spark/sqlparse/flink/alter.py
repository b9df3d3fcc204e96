"""ALTER TABLE in Flink's spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from paimon_spark.spec.column_changes import (
    AddColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.flink.statements import AlterColumns, SetTableOptions, Statement
from paimon_spark.sqlparse.flink.types import column_type

T = TypeVar("T")
_SPARKS = ("COLUMN", "COLUMNS", "CONSTRAINT")
"""Words of Spark's grammar after ADD, MODIFY, RENAME and DROP; a column of such a name is written in backquotes."""


def alter_table(cursor: Cursor) -> Statement | None:
    """Read what follows ALTER TABLE; return None for a form that is left to Spark.

    Raises:
        SqlSyntaxError: it does not parse.
    """
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.path("the name of a table")
    if cursor.accept("SET"):
        return SetTableOptions(name, cursor.options(), if_exists=if_exists) if cursor.peek() == "(" else None
    if cursor.accept("RESET"):
        keys = tuple(cursor.listed(lambda: cursor.string("a key")))
        return SetTableOptions(name, removed=keys, if_exists=if_exists)
    changes = tuple(_changes(cursor))
    return AlterColumns(name, changes, if_exists) if changes else None


def _changes(cursor: Cursor) -> Iterator[ColumnChange]:
    if cursor.peek(1) in _SPARKS:
        return
    if cursor.accept("ADD"):
        for changes in _one_or_more(cursor, _added):
            yield from changes
    elif cursor.accept("MODIFY"):
        for changes in _one_or_more(cursor, _modified):
            yield from changes
    elif cursor.peek() == "RENAME" and cursor.peek(1) != "TO":
        cursor.expect("RENAME")
        column = cursor.path("a column")
        cursor.expect("TO")
        yield RenameColumn(column, cursor.identifier("a name"))
    elif cursor.accept("DROP") and cursor.peek() not in ("PARTITION", "IF"):
        for path in _one_or_more(cursor, lambda c: c.path("a column")):
            yield DropColumn(path)


def _one_or_more(cursor: Cursor, item: Callable[[Cursor], T]) -> list[T]:
    return cursor.listed(lambda: item(cursor)) if cursor.peek() == "(" else [item(cursor)]


def _added(cursor: Cursor) -> list[ColumnChange]:
    path = cursor.path("a column")
    found = column_type(cursor, flink=True)
    comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    after, first = _position(cursor)
    return [AddColumn(path, found, comment, after, first)]


def _modified(cursor: Cursor) -> list[ColumnChange]:
    path = cursor.path("a column")
    found = column_type(cursor, flink=True)
    changes: list[ColumnChange] = [UpdateColumnType(path, found), UpdateColumnNullability(path, found.nullable)]
    if cursor.accept("COMMENT"):
        changes.append(UpdateColumnComment(path, cursor.string("a comment")))
    after, first = _position(cursor)
    if after is not None or first:
        changes.append(UpdateColumnPosition(path, after, first))
    return changes


def _position(cursor: Cursor) -> tuple[str | None, bool]:
    if cursor.accept("AFTER"):
        return cursor.identifier("a column"), False
    return None, cursor.accept("FIRST")

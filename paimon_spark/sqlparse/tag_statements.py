"""Parsing of tag statements: ``ALTER TABLE t CREATE TAG …`` and the like, and ``SHOW TAGS t``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.tokens import Piece, PieceKind, pieces

_MAYBE = re.compile(r"\btags?\b", re.IGNORECASE)
_CLAIM = re.compile(
    r"(?:explain )?(?:show tags\b|alter table \S+(?: ?\. ?\S+)* (?:create|(?:create or )?replace|delete|rename) tag\b"
    r"(?! to \S+(?: ;)*$))"
)
"""Not `ALTER TABLE t RENAME tag TO label`, which renames a column in Flink's spelling."""
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "CODEGEN", "COST")
_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000}
_TABLE = "the name of a table"
_TAG = "the name of a tag; quote it with backquotes"
_FORMS = (
    "The forms are ALTER TABLE t CREATE TAG [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN n DAYS|HOURS|MINUTES], "
    "ALTER TABLE t [CREATE OR] REPLACE TAG name …, ALTER TABLE t DELETE TAG [IF EXISTS] name, "
    "ALTER TABLE t RENAME TAG name TO name, and SHOW TAGS t."
)


class TagAction(StrEnum):
    """The kind of a statement."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    RENAME = "rename"
    SHOW = "show"


@dataclass(frozen=True, slots=True)
class TagStatement:
    """A tag statement.

    Attributes:
        action: what it does.
        table: the parts of the table's name.
        name: the tag; empty for SHOW TAGS.
        new_name: the new name of RENAME.
        lenient: IF EXISTS or IF NOT EXISTS was given.
        snapshot_id: the snapshot of AS OF VERSION.
        retained_ms: the retention of RETAIN.
        explain: EXPLAIN precedes the statement.
    """

    action: TagAction
    table: tuple[str, ...]
    name: str = ""
    new_name: str = ""
    lenient: bool = False
    snapshot_id: int | None = None
    retained_ms: int | None = None
    explain: bool = False


def is_tag_statement(text: str) -> bool:
    """Return whether `text` is a tag statement, by its first words."""
    if not _MAYBE.search(text):
        return False
    words = [_word(p) for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT)]
    if len(words) > 1 and words[0] == "explain" and words[1].upper() in _EXPLAIN_MODES:
        del words[1]
    return _CLAIM.match(" ".join(words)) is not None


def _word(piece: Piece) -> str:
    return "x" if piece.kind is not PieceKind.CODE else piece.text.lower()


def parse_tag_statement(text: str) -> TagStatement:
    """Parse a tag statement; a trailing ``;`` and comments are allowed.

    Raises:
        SqlSyntaxError: it does not parse; the message has line and column.
    """
    cursor = Cursor(text, hint=_FORMS)
    explain = cursor.accept("EXPLAIN")
    if explain:
        any(cursor.accept(mode) for mode in _EXPLAIN_MODES)
    if cursor.accept("SHOW"):
        cursor.expect("TAGS")
        statement = TagStatement(TagAction.SHOW, cursor.path(_TABLE), explain=explain)
    else:
        cursor.expect("ALTER", "TABLE")
        statement = _changing(cursor, cursor.path(_TABLE), explain=explain)
    cursor.end()
    return statement


def _changing(cursor: Cursor, table: tuple[str, ...], *, explain: bool) -> TagStatement:
    if cursor.accept("DELETE"):
        cursor.expect("TAG")
        lenient = cursor.accept("IF", "EXISTS")
        return TagStatement(TagAction.DELETE, table, cursor.identifier(_TAG), lenient=lenient, explain=explain)
    if cursor.accept("RENAME"):
        cursor.expect("TAG")
        name = cursor.identifier(_TAG)
        cursor.expect("TO")
        return TagStatement(TagAction.RENAME, table, name, cursor.identifier(_TAG), explain=explain)
    create = cursor.accept("CREATE")
    if create and not cursor.accept("OR"):
        cursor.expect("TAG")
        lenient = cursor.accept("IF", "NOT", "EXISTS")
        return _with_options(cursor, TagAction.CREATE, table, lenient=lenient, explain=explain)
    cursor.expect("REPLACE", "TAG")
    return _with_options(cursor, TagAction.REPLACE, table, lenient=False, explain=explain)


def _with_options(
    cursor: Cursor, action: TagAction, table: tuple[str, ...], *, lenient: bool, explain: bool
) -> TagStatement:
    name = cursor.identifier(_TAG)
    snapshot_id = retained_ms = None
    if cursor.accept("AS"):
        cursor.expect("OF", "VERSION")
        snapshot_id = cursor.number("the id of a snapshot")
    if cursor.accept("RETAIN"):
        retained_ms = cursor.number("a number of days, hours or minutes") * _unit(cursor)
    return TagStatement(
        action, table, name, lenient=lenient, snapshot_id=snapshot_id, retained_ms=retained_ms, explain=explain
    )


def _unit(cursor: Cursor) -> int:
    """Return the milliseconds of a unit of time."""
    for unit, millis in _UNITS.items():
        if cursor.accept(unit) or cursor.accept(f"{unit}S"):
            return millis
    return cursor.fail("expected DAYS, HOURS or MINUTES")

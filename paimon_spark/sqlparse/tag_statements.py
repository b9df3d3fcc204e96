"""Parsing of statements over tags: ``ALTER TABLE t CREATE TAG …`` and its relatives, and ``SHOW TAGS t``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.tokens import Piece, PieceKind, pieces, position

_MAYBE = re.compile(r"\btags?\b", re.IGNORECASE)
_CLAIM = re.compile(
    r"(?:explain )?(?:show tags\b|alter table \S+(?: ?\. ?\S+)* (?:create|(?:create or )?replace|delete|rename) tag\b)"
)
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "CODEGEN", "COST")
_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000}
_MOST_DIGITS = 18
_FORMS = (
    "The forms are ALTER TABLE t CREATE TAG [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN n DAYS|HOURS|MINUTES], "
    "ALTER TABLE t [CREATE OR] REPLACE TAG name …, ALTER TABLE t DELETE TAG [IF EXISTS] name, "
    "ALTER TABLE t RENAME TAG name TO name, and SHOW TAGS t."
)


class TagAction(StrEnum):
    """What a statement does."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    RENAME = "rename"
    SHOW = "show"


@dataclass(frozen=True, slots=True)
class TagStatement:
    """A statement over tags.

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
    """Return whether `text` is a statement over tags, by its first words."""
    if not _MAYBE.search(text):
        return False
    words = [_word(p) for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT)]
    if len(words) > 1 and words[0] == "explain" and words[1].upper() in _EXPLAIN_MODES:
        del words[1]
    return _CLAIM.match(" ".join(words)) is not None


def _word(piece: Piece) -> str:
    return "x" if piece.kind is not PieceKind.CODE else piece.text.lower()


def parse_tag_statement(text: str) -> TagStatement:
    """Parse a statement over tags; a trailing ``;`` and comments are allowed.

    Raises:
        SqlSyntaxError: it does not parse; the message has line and column.
    """
    parser = _Parser(text)
    explain = parser.accept("EXPLAIN")
    if explain:
        any(parser.accept(mode) for mode in _EXPLAIN_MODES)
    if parser.accept("SHOW"):
        parser.expect("TAGS")
        statement = TagStatement(TagAction.SHOW, parser.table(), explain=explain)
    else:
        parser.expect("ALTER", "TABLE")
        statement = _changing(parser, parser.table(), explain=explain)
    parser.end()
    return statement


def _changing(parser: _Parser, table: tuple[str, ...], *, explain: bool) -> TagStatement:
    if parser.accept("DELETE"):
        parser.expect("TAG")
        lenient = parser.accept("IF", "EXISTS")
        return TagStatement(TagAction.DELETE, table, parser.name("a tag"), lenient=lenient, explain=explain)
    if parser.accept("RENAME"):
        parser.expect("TAG")
        name = parser.name("a tag")
        parser.expect("TO")
        return TagStatement(TagAction.RENAME, table, name, parser.name("a tag"), explain=explain)
    create = parser.accept("CREATE")
    if create and not parser.accept("OR"):
        parser.expect("TAG")
        lenient = parser.accept("IF", "NOT", "EXISTS")
        return _with_options(parser, TagAction.CREATE, table, lenient=lenient, explain=explain)
    parser.expect("REPLACE", "TAG")
    return _with_options(parser, TagAction.REPLACE, table, lenient=False, explain=explain)


def _with_options(
    parser: _Parser, action: TagAction, table: tuple[str, ...], *, lenient: bool, explain: bool
) -> TagStatement:
    name = parser.name("a tag")
    snapshot_id = retained_ms = None
    if parser.accept("AS"):
        parser.expect("OF", "VERSION")
        snapshot_id = parser.number("the id of a snapshot")
    if parser.accept("RETAIN"):
        retained_ms = parser.number("a number of days, hours or minutes") * parser.unit()
    return TagStatement(
        action, table, name, lenient=lenient, snapshot_id=snapshot_id, retained_ms=retained_ms, explain=explain
    )


class _Parser:
    """A cursor over the pieces of a statement."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces = [p for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT)]
        self._at = 0

    def accept(self, *words: str) -> bool:
        """Skip these keywords if they come next."""
        ahead = self._pieces[self._at : self._at + len(words)]
        if [p.text.upper() for p in ahead if p.kind is PieceKind.CODE] != list(words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Skip these keywords."""
        for word in words:
            if not self.accept(word):
                raise self._error(word)

    def table(self) -> tuple[str, ...]:
        """Return the parts of a table's name."""
        parts = [self.name("a table")]
        while self.accept("."):
            parts.append(self.name("a table"))
        return tuple(parts)

    def name(self, of: str) -> str:
        """Return a plain or backquoted name."""
        piece = self._next()
        if piece is not None and piece.kind is PieceKind.NAME and piece.closed:
            self._at += 1
            return piece.text[1:-1].replace("``", "`")
        if piece is None or piece.kind is not PieceKind.CODE or not re.fullmatch(r"\w+", piece.text):
            raise self._error(f"the name of {of}; quote it with backquotes")
        self._at += 1
        return piece.text

    def number(self, what: str) -> int:
        """Return a whole number; a suffix ``L`` is allowed."""
        piece = self._next()
        digits = "" if piece is None else piece.text.upper().removesuffix("L")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
            raise self._error(what)
        self._at += 1
        return int(digits)

    def unit(self) -> int:
        """Return the milliseconds of a unit of time."""
        for unit, millis in _UNITS.items():
            if self.accept(unit) or self.accept(f"{unit}S"):
                return millis
        raise self._error("DAYS, HOURS or MINUTES")

    def end(self) -> None:
        """Check that the statement ends here."""
        while self.accept(";"):
            pass
        if self._next() is not None:
            raise self._error("the end of the statement")

    def _next(self) -> Piece | None:
        return self._pieces[self._at] if self._at < len(self._pieces) else None

    def _error(self, expected: str) -> SqlSyntaxError:
        piece = self._next()
        found = "the statement ends" if piece is None else f"found {piece.text}"
        line, column = position(self._text, len(self._text) if piece is None else piece.start)
        return SqlSyntaxError(f"Line {line}, column {column}: expected {expected}; {found}.", hint=_FORMS)

"""Splits a SQL script into statements, with the comments above each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.tokens import Piece, PieceKind, pieces, position

_COMMENT_MARKS = re.compile(r"^\s*(--|/\*)\s?|\s*\*/\s*$")
_HEADLINE = 100
_OPENERS = ("IF", "WHILE", "REPEAT", "LOOP", "FOR")
_BEFORE_STATEMENTS = ("", ";", "BEGIN", "DO", "THEN", "ELSE", "LOOP", "REPEAT", ":")
_EXPRESSION = "CASE …"
"""A CASE within an expression: IF after its THEN is the function."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its semicolon, and the comment lines directly above it.

    `line` is its first line, from 1. `given_from` is the line where the previous statement ends, for programs that run
    comments and blank lines as part of the next statement.
    """

    text: str
    comment: str = ""
    line: int = field(default=1, compare=False)
    given_from: int = field(default=1, compare=False)

    @property
    def headline(self) -> str:
        """Return the first line, truncated if it is long."""
        first, more, _ = self.text.partition("\n")
        if len(first) > _HEADLINE or more:
            return first[:_HEADLINE].rstrip() + " …"
        return first


def split_script(script: str) -> list[Statement]:
    """Return the statements of `script` in order; those with only whitespace and comments are left out.

    A ``;`` ends a statement unless it is inside quotes, a comment, parentheses or a ``BEGIN … END`` block. Comments
    inside a statement are part of its text.

    Raises:
        SqlSyntaxError: a quote or a block comment is not closed.
    """
    out: list[Statement] = []
    for parts, _ in _parted(script):
        for piece in parts:
            _refuse_unclosed(script, piece)
        out += _statement(script, parts)
    return out


def complete_statements(typed: str) -> tuple[list[Statement], str]:
    """Return the statements of `typed` that end in a semicolon, and the text after the last of them."""
    done: list[Statement] = []
    rest = 0
    for parts, ended in _parted(typed):
        if ended:
            done += _statement(typed, parts)
            rest = parts[-1].start + len(parts[-1].text) + 1 if parts else rest + 1
    return done, typed[rest:]


def _parted(script: str) -> Iterator[tuple[list[Piece], bool]]:
    """Yield the pieces of each statement, and whether a semicolon follows them."""
    current: list[Piece] = []
    depth = 0
    blocks = _Blocks()
    for piece in pieces(script):
        code = piece.text if piece.kind is PieceKind.CODE else ""
        depth = max(depth + (code in ("(", "[")) - (code in (")", "]")), 0)
        if code == ";" and depth == 0 and not blocks.is_open:
            yield current, True
            current, blocks = [], _Blocks()
            continue
        current.append(piece)
        if code:
            blocks.see(code)
    yield current, False


class _Blocks:
    """Tracks the nesting of compound statements; only a statement that starts with BEGIN is one."""

    def __init__(self) -> None:
        self._first = ""
        self._previous = ""
        self._open: list[str] = []

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def see(self, word: str) -> None:
        word = word.upper()
        self._first = self._first or word
        if self._first == "BEGIN":
            self._change(word)
        self._previous = word

    def _change(self, word: str) -> None:
        if word == "END":
            if self._previous not in (".", "AS"):  # after these, it is a name
                del self._open[-1:]
        elif self._previous != "END":
            in_expression = self._open[-1:] == [_EXPRESSION]
            starts = not in_expression and self._previous in _BEFORE_STATEMENTS
            if word == "CASE" and not starts:
                self._open.append(_EXPRESSION)
            elif word in ("BEGIN", "CASE") or (word in _OPENERS and starts):
                self._open.append(word)


def _statement(script: str, parts: list[Piece]) -> Iterator[Statement]:
    comments: list[str] = []
    for piece in parts:
        if piece.kind is PieceKind.COMMENT and not piece.text.startswith("/*+"):
            comments += piece.text.splitlines()
        elif piece.kind is not PieceKind.BLANK:
            end = parts[-1].start + len(parts[-1].text)
            plain = (_COMMENT_MARKS.sub("", line).rstrip() for line in comments)
            line, _ = position(script, piece.start)
            given_from, _ = position(script, parts[0].start)
            yield Statement(script[piece.start : end].strip(), "\n".join(c for c in plain if c), line, given_from)
            return


def _refuse_unclosed(script: str, piece: Piece) -> None:
    if piece.closed:
        return
    line, column = position(script, piece.start)
    what = "block comment" if piece.kind is PieceKind.COMMENT else f"quote {piece.text[:1]}"
    raise SqlSyntaxError(
        f"The {what} opened at line {line}, column {column} is never closed.",
        hint="Close it, or double or escape the quote if it belongs to the text.",
    )

"""Splits SQL text into code, quoted text and comments, without parsing it.

Used to normalize a statement (`claims`) and to find statement ends (`script`). Supports Spark's quoting: single and
double quotes with backslash escapes, raw strings, backquoted names, line comments and nested block comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class PieceKind(StrEnum):
    """The kind of a piece of text."""

    CODE = "code"
    BLANK = "blank"
    STRING = "string"
    NAME = "name"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text, its offset, and whether its closing quote or comment end was found."""

    kind: PieceKind
    text: str
    start: int
    closed: bool = True


_PIECE = re.compile(
    r"""(?P<line>--(?:\\\r?\n|[^\r\n])*)
      | (?P<block>/\*)
      | (?P<raw>(?<![\w])[rR](?:'[^']*'?|"[^"]*"?))
      | (?P<string>'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?)
      | (?P<name>`(?:``|[^`])*`?)
      | (?P<blank>\s+)
      | (?P<word>\w+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCK_MARK = re.compile(r"/\*|\*/")


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of `text`; concatenated, they equal `text`."""
    at = 0
    while at < len(text):
        m = _PIECE.match(text, at)
        if m is None:  # unreachable: the last alternative matches any character
            raise AssertionError(text[at:])
        kind, end, closed = _classify(text, m)
        yield Piece(kind, text[at:end], at, closed)
        at = end


def _classify(text: str, m: re.Match[str]) -> tuple[PieceKind, int, bool]:
    group = m.lastgroup
    if group == "line":
        return PieceKind.COMMENT, m.end(), True
    if group == "block":
        end, closed = _block_end(text, m.start())
        return PieceKind.COMMENT, end, closed
    if group in ("raw", "string"):
        body = m.group()[1:] if group == "raw" else m.group()
        return PieceKind.STRING, m.end(), _is_closed(body, escapes=group == "string")
    if group == "name":
        return PieceKind.NAME, m.end(), len(m.group()) > 1 and m.group().endswith("`")
    return (PieceKind.BLANK if group == "blank" else PieceKind.CODE), m.end(), True


def _block_end(text: str, start: int) -> tuple[int, bool]:
    depth = 0
    for m in _BLOCK_MARK.finditer(text, start):
        depth += 1 if m.group() == "/*" else -1
        if depth == 0:
            return m.end(), True
    return len(text), False


def _is_closed(quoted: str, *, escapes: bool) -> bool:
    if len(quoted) < 2 or quoted[-1] != quoted[0]:
        return False
    if not escapes:
        return True
    backslashes = len(quoted) - 1 - len(quoted[:-1].rstrip("\\"))
    return backslashes % 2 == 0


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of `offset`, counted from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def join_touching_strings(text: str) -> str:
    r"""Return `text` with doubled quotes inside literals replaced by escaped ones: ``'it''s'`` by ``'it\'s'``."""
    out = ""
    previous: Piece | None = None
    for piece in pieces(text):
        touches = previous is not None and previous.kind is piece.kind is PieceKind.STRING
        if touches and out[-1] == piece.text[0]:
            out = f"{out[:-1]}\\{piece.text}"
        else:
            out += piece.text
        previous = piece
    return out

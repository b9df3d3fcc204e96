"""Decides whether a statement is a Paimon CALL, before any parsing; runs for each statement of a session."""

from __future__ import annotations

import re
from collections.abc import Container

from paimon_spark.sqlparse.tokens import PieceKind, pieces

_MAYBE = re.compile(r"\bcall\b", re.IGNORECASE)
_CALL = re.compile(
    r"^(?:explain (?:(?:extended|formatted|codegen|cost) )?)?call (?P<path>[^\s().]+(?: ?\. ?[^\s().]+)*) ?\(",
)
_MARKER = re.compile(r"\?|(?<!:):[a-z_]")


def is_paimon_statement(text: str, procedures: Container[str]) -> bool:
    """Return whether `text` is a CALL (or EXPLAIN CALL) of one of `procedures`, given in lower case.

    Comments, whitespace, letter case and backquotes are ignored; ``name``, ``sys.name`` and ``catalog.sys.name`` all
    match. A text with parameter markers (``?``, ``:name``) does not match: Spark binds them.
    """
    if not _MAYBE.search(text):
        return False
    flat = normalise(text)
    m = _CALL.match(flat)
    if m is None or _MARKER.search(flat[m.end() :]):
        return False
    path = [part.strip() for part in m["path"].split(".")]
    if path[-1] not in procedures:
        return False
    return len(path) == 1 or (len(path) <= 3 and path[-2] == "sys")


def normalise(text: str) -> str:
    """Return `text` in lower case on one line, without comments and backquotes, with empty string literals."""
    out: list[str] = []
    for piece in pieces(text):
        if piece.kind in (PieceKind.BLANK, PieceKind.COMMENT):
            out.append(" ")
        elif piece.kind is PieceKind.STRING:
            out.append("''")
        elif piece.kind is PieceKind.NAME:
            out.append(piece.text.strip("`").lower())
        else:
            out.append(piece.text.lower())
    return " ".join("".join(out).split())

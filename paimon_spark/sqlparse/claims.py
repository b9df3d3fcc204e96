"""Decide whether a statement is ours before any real parsing: every statement of a session passes here."""

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

    Comments, blanks, letter case and back-quotes do not matter; ``name``, ``sys.name`` and ``catalog.sys.name`` all
    count. A text with parameter markers (``?``, ``:name``) is left to Spark, which binds them.
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
    """Return `text` in lower case on one line, without comments and back-quotes, each string literal emptied."""
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

"""SET and RESET of Paimon's session options, in Spark's syntax and in the quoted syntax of Paimon's documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.spec.quoted_text import name_value, string_value
from paimon_spark.sqlparse.tokens import Piece, PieceKind, join_touching_strings, pieces

_PREFIXES = ("spark.paimon.", "paimon.")
_NOTHING = (PieceKind.BLANK, PieceKind.COMMENT)
_FORM = "Write SET '<key>' = '<value>', SET '<key>' to see it, or RESET '<key>'."


@dataclass(frozen=True, slots=True)
class Setting:
    """One statement: RESET of a key, SET of a key to a value, or (neither) a query of its value."""

    key: str
    value: str | None = None
    reset: bool = False


def parse_setting(text: str) -> Setting | None:
    """Parse a SET or RESET of one of Paimon's keys; return None for any other statement.

    Raises:
        SqlSyntaxError: the key is Paimon's, but the statement is malformed.
    """
    parts = list(pieces(join_touching_strings(text)))
    start = next((i for i, p in enumerate(parts) if p.kind not in _NOTHING), None)
    if start is None or parts[start].text.lower() not in ("set", "reset"):
        return None
    reset = parts[start].text.lower() == "reset"
    rest = parts[start + 1 :]
    equals = None if reset else next((i for i, p in enumerate(rest) if p.text == "="), None)
    key = _word(rest if equals is None else rest[:equals])
    if not key.startswith(_PREFIXES):
        return None
    if any(c.isspace() or c == "=" for c in key) or key in _PREFIXES:
        raise SqlSyntaxError(f"'{key}' is not the key of a session option.", hint=_FORM)
    return Setting(key, None if equals is None else _word(rest[equals + 1 :]), reset)


def _word(parts: Iterable[Piece]) -> str:
    """Return a key or a value: a quoted string without its quotes, or plain text without comments."""
    kept = [p for p in parts if p.kind is not PieceKind.COMMENT]
    solid = [p for p in kept if p.kind is not PieceKind.BLANK]
    while solid and solid[-1].text == ";":
        solid.pop()
        kept = kept[: kept.index(solid[-1]) + 1] if solid else []
    if len(solid) == 1 and solid[0].closed:
        if solid[0].kind is PieceKind.STRING:
            return string_value(solid[0].text)
        if solid[0].kind is PieceKind.NAME:
            return name_value(solid[0].text)
    return "".join(p.text for p in kept).strip()

r"""OPTIONS hints after table names, as in Paimon's documentation: ``t /*+ OPTIONS('key' = 'value', …) */``.

Spark's equivalent is ``t WITH ('key' = 'value', …)``. Only the hint is rewritten, in place, so that the positions in
Spark's messages stay correct; all other text is unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate

from paimon_spark.errors import SqlSyntaxError, UnsupportedError
from paimon_spark.spec.quoted_text import string_literal, string_value
from paimon_spark.sqlparse.tokens import Piece, PieceKind, join_touching_strings, pieces

_HINT = re.compile(r"/\*\+\s*OPTIONS\s*\((?P<body>.*)\)\s*\*/", re.IGNORECASE | re.DOTALL)
_MAYBE = re.compile(r"/\*\+\s*OPTIONS\b", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_][\w.\-]*")
_VALUE = re.compile(r"[+-]?\w[\w.\-+]*")
_BEFORE_TABLES = ("from", "join", "into", "overwrite", "table", ",", "(")
_TRAVEL = ("version", "timestamp", "system_version", "system_time", "for")
_TYPED = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")
_FORM = "Write t /*+ OPTIONS('key' = 'value', …) */."
_SESSION = "Set the option for the session instead: SET 'paimon.<catalog>.<database>.<table>.<key>' = '<value>'."


@dataclass(slots=True)
class _Site:
    """One hint: its location, its options, and the number of code pieces before it."""

    start: int
    end: int
    options: dict[str, str]
    before: int


def rewrite_hints(text: str) -> str:
    """Return `text` with each OPTIONS hint rewritten as a WITH clause; other hints and comments are kept.

    Raises:
        SqlSyntaxError: a hint is malformed, or does not follow a table name.
        UnsupportedError: the table reference cannot have options.
    """
    if not _MAYBE.search(text):
        return text
    solid: list[Piece] = []
    sites: list[_Site] = []
    for piece in pieces(text):
        if piece.kind is PieceKind.COMMENT and _MAYBE.match(piece.text):
            _add(sites, piece, len(solid))
        elif piece.kind not in (PieceKind.BLANK, PieceKind.COMMENT):
            solid.append(piece)
    for site in sites:
        _check_place(solid[: site.before], solid[site.before :])
    for site in reversed(sites):
        text = text[: site.start] + _clause(site.options, text[site.start : site.end]) + text[site.end :]
    return text


def _add(sites: list[_Site], piece: Piece, before: int) -> None:
    m = _HINT.fullmatch(piece.text)
    if m is None or not piece.closed:
        raise SqlSyntaxError(f"The hint {_short(piece.text)} is malformed.", hint=_FORM)
    options, end = _pairs(m["body"], piece.text), piece.start + len(piece.text)
    if sites and sites[-1].before == before:
        last = sites[-1]
        last.options, last.end = last.options | options, end
    else:
        sites.append(_Site(piece.start, end, options, before))


def _pairs(body: str, hint: str) -> dict[str, str]:
    """Parse ``'key' = 'value', …``; of duplicate keys, the last one wins."""
    words: list[str] = [""]
    quoted = False
    options: dict[str, str] = {}
    for piece in [*pieces(join_touching_strings(body)), Piece(PieceKind.CODE, ",", len(body))]:
        if piece.kind in (PieceKind.BLANK, PieceKind.COMMENT):
            continue
        if piece.text == "=" and len(words) == 1:
            words.append("")
            quoted = False
        elif piece.text == "," and piece.kind is PieceKind.CODE:
            if len(words) != 2 or not words[0]:
                raise SqlSyntaxError(
                    f"The hint {_short(hint)} is malformed: a key and its value are missing.", hint=_FORM
                )
            options[words[0]] = words[1]
            words, quoted = [""], False
        else:
            _take(words, piece, hint, quoted=quoted)
            quoted = piece.kind is not PieceKind.CODE
    return options


def _take(words: list[str], piece: Piece, hint: str, *, quoted: bool) -> None:
    plain = piece.kind is PieceKind.CODE
    if quoted or (words[-1] and not plain) or not piece.closed:
        raise SqlSyntaxError(f"The hint {_short(hint)} is malformed near {piece.text}.", hint=_FORM)
    if plain:
        words[-1] += piece.text
        pattern = _KEY if len(words) == 1 else _VALUE
        if not pattern.fullmatch(words[-1].rstrip(".-") or "x"):
            raise SqlSyntaxError(f"The hint {_short(hint)} is malformed near {piece.text}.", hint=_FORM)
    else:
        words[-1] = string_value(piece.text) if piece.kind is PieceKind.STRING else piece.text[1:-1]


def _check_place(before: list[Piece], after: list[Piece]) -> None:
    """Raise unless a hint follows the name of a table that is read or inserted into."""
    if after and after[0].text.lower() in _TRAVEL and len(after) > 1 and after[1].text.lower() in (*_TRAVEL, "as"):
        raise SqlSyntaxError("An OPTIONS hint must follow VERSION AS OF or TIMESTAMP AS OF.", hint=_FORM)
    words = [p.text.lower() for p in _without_travel(before)]
    kinds = [p.kind for p in _without_travel(before)]
    at = len(words) - 1
    if at < 0 or not _is_name(words[at], kinds[at]):
        raise SqlSyntaxError("An OPTIONS hint must follow the name of a table.", hint=_FORM)
    while at >= 2 and words[at - 1] == "." and _is_name(words[at - 2], kinds[at - 2]):
        at -= 2
    opening, earlier = words[at - 1 : at], words[max(at - 2, 0) : at - 1]
    if (opening, earlier) in ((["from"], ["delete"]), (["into"], ["merge"])) or opening == ["update"]:
        raise UnsupportedError(
            "The table that DELETE, UPDATE or MERGE changes cannot have an OPTIONS hint.", hint=_SESSION
        )
    if opening == ["using"]:
        raise UnsupportedError(
            "The source of MERGE cannot have an OPTIONS hint.", hint="Write USING (SELECT * FROM s /*+ OPTIONS(…) */)."
        )
    if not opening or opening[0] not in _BEFORE_TABLES:
        raise SqlSyntaxError(
            "An OPTIONS hint must directly follow the name of a table, before its alias; "
            f"'{before[-1].text}' is not one.",
            hint=_FORM,
        )


def _without_travel(before: list[Piece]) -> list[Piece]:
    words = [p.text.lower() for p in before]
    found = [i for i in range(1, len(words) - 2) if words[i - 1] in _TRAVEL and words[i : i + 2] == ["as", "of"]]
    if not found or not _is_version(before[found[-1] + 2 :]):
        return before
    start = found[-1] - 1
    return before[: start - (words[start - 1] == "for")]


def _is_version(value: list[Piece]) -> bool:
    """Return whether `value` is one literal or one call of a function, as versions and times are written."""
    if len(value) < 2:
        return True
    if len(value) == 2:
        return value[0].text.lower() in _TYPED and value[1].kind is PieceKind.STRING
    depths = list(accumulate((p.text == "(") - (p.text == ")") for p in value[1:]))
    return value[1].text == "(" and depths[-1] == 0 and depths.index(0) == len(depths) - 1


def _is_name(word: str, kind: PieceKind) -> bool:
    return kind is PieceKind.NAME or (kind is PieceKind.CODE and word.isidentifier() and word not in ("select", "from"))


def _clause(options: dict[str, str], hint: str) -> str:
    """Return the WITH clause, padded to the length of the hint if possible, with as many line breaks."""
    text = "WITH (" + ", ".join(f"{string_literal(k)}={string_literal(v)}" for k, v in options.items()) + ")"
    breaks = hint.count("\n")
    return text + "\n" * breaks + " " * max(len(hint) - len(text) - breaks, 0)


def _short(hint: str) -> str:
    flat = " ".join(hint.split())
    return flat if len(flat) <= 80 else flat[:77] + "…"

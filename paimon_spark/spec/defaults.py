"""Default values of columns, which a schema stores as text (docs/spec/semantics.md, H4).

The text is that after DEFAULT in SQL: a number, ``true``, a quoted text, ``NULL``, or ``ARRAY(…)``, ``MAP(…)`` and
``STRUCT(…)`` of these. Other engines also write texts without quotes, and ``[…]`` and ``{…}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spec.literals import parse_value
from paimon_spark.spec.quoted_text import string_literal, string_value
from paimon_spark.spec.types import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot, type_to_json

_QUOTED = re.compile(r"'(?:\\.|''|[^'\\])*'|\"(?:\\.|\"\"|[^\"\\])*\"", re.DOTALL)
_PIECE = re.compile(rf"{_QUOTED.pattern}|->|[(\[{{]|[)\]}}]|,|.", re.DOTALL)
_PLAIN = re.compile(r"[+-]?[0-9.]+|true|false", re.IGNORECASE)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_SUFFIX = re.compile(r"(?<=[0-9.])[dDfF]$")
_TIMES = {TypeRoot.DATE: "DATE", TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ", TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP"}
_OPEN, _CLOSED = "([{", ")]}"
_ARRAY = re.compile(r"\s*(?:ARRAY\s*\((?P<a>.*)\)|\[(?P<b>.*)\])\s*", re.IGNORECASE | re.DOTALL)
_ROW = re.compile(r"\s*(?:STRUCT\s*\((?P<a>.*)\)|\{(?P<b>.*)\})\s*", re.IGNORECASE | re.DOTALL)
_MAP = re.compile(r"\s*(?:MAP\s*\((?P<a>.*)\)|\{(?P<b>.*)\})\s*", re.IGNORECASE | re.DOTALL)


def is_null_default(text: str) -> bool:
    """Return whether a default is NULL."""
    return text.strip().upper() == "NULL"


def check_default(text: str, t: DataType) -> None:
    """Reject a default that SQL and writers of the format would interpret differently.

    Raises:
        ArgumentError: it is no literal of the type.
    """
    text = text.strip()
    if isinstance(t, AtomicType) and t.root in _TEXTS and not (_QUOTED.fullmatch(text) or _PLAIN.fullmatch(text)):
        raise _invalid(text, t, "Write the text in quotes; an expression cannot be a default.")
    parse_default(text, t)


def parse_default(text: str, t: DataType) -> Any:
    """Return the value of a default: for atomic types a value of `spec.rows`, None for NULL.

    The value of an ARRAY or a ROW is a tuple, that of a MAP a tuple of pairs.

    Raises:
        ArgumentError: the text is not a value of the type.
    """
    if is_null_default(text):
        return None
    if isinstance(t, AtomicType):
        plain = _unquoted(text)
        return parse_value(_SUFFIX.sub("", plain) if t.root in _FLOATS else plain, t)
    if isinstance(t, ArrayType):
        return tuple(parse_default(v, t.element) for v in _items(_inside(_ARRAY, text, t), ","))
    if isinstance(t, RowType):
        members = list(_items(_inside(_ROW, text, t), ","))
        if len(members) != len(t.fields):
            raise _invalid(text, t, f"The row has {len(t.fields)} members, but the default has {len(members)}.")
        return tuple(parse_default(v, f.type) for v, f in zip(members, t.fields, strict=True))
    if isinstance(t, MapType):
        return _parse_map(text, t)
    raise _invalid(text, t, "A column of this type cannot have a default.")


def sql_default(text: str, t: DataType) -> str:
    """Return a default as SQL that has the column's type, in which a text is not a date or a timestamp."""
    if not isinstance(t, AtomicType) or is_null_default(text):
        return text
    if t.root in _TIMES:
        return f"{_TIMES[t.root]} {string_literal(_unquoted(text))}"
    known = _QUOTED.fullmatch(text.strip()) or _PLAIN.fullmatch(text.strip())
    return string_literal(text) if t.root in _TEXTS and not known else text


def _parse_map(text: str, t: MapType) -> tuple[tuple[Any, Any], ...]:
    inside = _inside(_MAP, text, t)
    if text.strip().startswith("{"):
        pairs = [list(_items(entry, "->")) for entry in _items(inside, ",")]
    else:
        flat = list(_items(inside, ","))
        pairs = [flat[i : i + 2] for i in range(0, len(flat), 2)]
    if any(len(pair) != 2 for pair in pairs):
        raise _invalid(text, t, "Write each key with its value: MAP('a', 1, 'b', 2).")
    out = {parse_default(k, t.key): parse_default(v, t.value) for k, v in pairs}
    if None in out:
        raise _invalid(text, t, "A key cannot be null.")
    return tuple(out.items())


def _unquoted(text: str) -> str:
    trimmed = text.strip()
    if not _QUOTED.fullmatch(trimmed):
        return text
    quote = trimmed[0]
    return string_value(quote + trimmed[1:-1].replace(quote * 2, "\\" + quote) + quote)


def _inside(pattern: re.Pattern[str], text: str, t: DataType) -> str:
    found = pattern.fullmatch(text)
    if found is None:
        raise _invalid(text, t, "Write ARRAY(1, 2), MAP('a', 1) or STRUCT(1, 'a').")
    return found["a"] if found["a"] is not None else found["b"]


def _items(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of `text` between separators that are outside of quotes and brackets; none if it is blank."""
    if not text.strip():
        return
    depth, part = 0, ""
    for piece in _PIECE.findall(text):
        if piece == separator and depth == 0:
            yield part.strip()
            part = ""
            continue
        depth += (piece in _OPEN) - (piece in _CLOSED)
        part += piece
    yield part.strip()


def _invalid(text: str, t: DataType, hint: str) -> ArgumentError:
    name = type_to_json(t)
    shown = name if isinstance(name, str) else name["type"]
    return ArgumentError(f"'{text}' is not a value of type {shown}.", hint=hint, kind=ErrorKind.TYPE_MISMATCH)

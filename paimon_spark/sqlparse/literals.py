"""Values of the literals in a CALL, taken from the source text without loss of precision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT", "BD": "DECIMAL"}
_NUMBER = re.compile(r"^(?P<digits>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[a-zA-Z]*)$")
_RANGES = {"TINYINT": 1 << 7, "SMALLINT": 1 << 15, "INT": 1 << 31, "BIGINT": 1 << 63}


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: its SQL type, its Python value, its source text and its offset.

    `type` is NULL, BOOLEAN, one of the numeric types, STRING, BINARY, DATE, TIMESTAMP, MAP or ARRAY. The value of DATE
    and TIMESTAMP is the text between the quotes; of MAP a dict, and of ARRAY a tuple, of plain values.
    """

    type: str
    value: Any
    text: str
    offset: int = 0
    line: int = 1
    column: int = 1

    @property
    def is_blank(self) -> bool:
        """Return whether the literal means "not given": NULL, or a blank string."""
        return self.type == "NULL" or (self.type == "STRING" and not self.value.strip())

    @property
    def is_integer(self) -> bool:
        """Return whether the literal is an integer without fraction or exponent."""
        return self.type in _RANGES


def number_value(source: str, *, negative: bool) -> tuple[str, Any] | None:
    """Return the type and value of a number with an optional type suffix, or None if it is invalid or out of range."""
    m = _NUMBER.match(source)
    if m is None:
        return None
    digits, suffix = m["digits"], m["suffix"].upper()
    if suffix and suffix not in _SUFFIXES:
        return None
    kind = _SUFFIXES.get(suffix) or _natural_type(digits, negative=negative)
    exact = Decimal(digits) * (-1 if negative else 1)
    if kind in _RANGES:
        whole = digits.isdigit() and -_RANGES[kind] <= exact < _RANGES[kind]
        return (kind, int(exact)) if whole else None
    return (kind, exact) if kind == "DECIMAL" else (kind, float(exact))


def _natural_type(digits: str, *, negative: bool) -> str:
    if "e" in digits.lower():
        return "DOUBLE"
    if not digits.isdigit():
        return "DECIMAL"
    value = -int(digits) if negative else int(digits)
    for kind in ("INT", "BIGINT"):
        if -_RANGES[kind] <= value < _RANGES[kind]:
            return kind
    return "DECIMAL"

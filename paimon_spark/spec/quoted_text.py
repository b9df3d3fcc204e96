"""String literals of SQL: quotes and escapes."""

from __future__ import annotations

import re
import sys

from paimon_spark.errors import SqlSyntaxError

_ESCAPE = re.compile(
    r"\\(?:u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<char>.))", re.DOTALL
)
_CONTROL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(source: str) -> str:
    r"""Return the value of one quoted literal, given with its prefix and quotes; ``\n``, ``\'`` … are resolved.

    Raises:
        SqlSyntaxError: an escape is above the highest Unicode code point.
    """
    if source[0] in "rR":
        return source[2:-1]
    return _ESCAPE.sub(_unescape, source[1:-1])


def _unescape(m: re.Match[str]) -> str:
    if m["u4"] or m["u8"]:
        code = int(m["u4"] or m["u8"], 16)
        if code > sys.maxunicode:
            raise SqlSyntaxError(
                f"The escape {m.group()} is not that of a character.", hint="The last one is \\U0010FFFF."
            )
        return chr(code)
    if m["octal"]:
        return chr(int(m["octal"], 8))
    return _CONTROL.get(m["char"], m["char"])

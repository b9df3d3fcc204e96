"""String literals and quoted names of SQL."""

from __future__ import annotations

import re
import sys

from paimon_spark.errors import SqlSyntaxError

_ESCAPE = re.compile(
    r"\\(?:u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<char>.))", re.DOTALL
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(source: str) -> str:
    r"""Return the value of one quoted literal, given with its prefix and quotes; ``\n``, ``\'`` … are resolved.

    Raises:
        SqlSyntaxError: an escape is above the highest Unicode code point.
    """
    if source[0] in "rR":
        return source[2:-1]
    return _ESCAPE.sub(_unescape, source[1:-1])


def string_literal(text: str, quote: str = "'") -> str:
    """Return a text as a SQL literal on one line, for which `string_value` and Spark return the text."""
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n") + quote


def sql_value(value: object) -> str:
    """Return a boolean, a whole number or a text as a SQL literal; other values become texts."""
    return str(value).lower() if isinstance(value, bool | int) else string_literal(str(value))


def quoted_name(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def sql_path(*parts: str) -> str:
    """Return a name of SQL; parts that are not plain words are in backquotes."""
    return ".".join(p if _NAME.fullmatch(p) else quoted_name(p) for p in parts)


def name_value(source: str) -> str:
    """Return the name that is given with its backquotes."""
    return source[1:-1].replace("``", "`")


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

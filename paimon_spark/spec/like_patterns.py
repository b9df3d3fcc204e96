"""Patterns of LIKE: ``%`` is any text, ``_`` one character, and a backslash makes the next character a plain one."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\\(?P<plain>[\\%_])|(?P<wild>[%_])|(?P<other>[^\\])", re.DOTALL)
_WILD = {"%": ".*", "_": "."}


def normal_pattern(pattern: str, escape: str = "\\") -> str:
    """Return a pattern in which a backslash escapes, for one with another escape character.

    Raises:
        ValueError: the escape character precedes another character than itself, ``%`` and ``_``.
    """
    out, chars = "", iter(pattern)
    for char in chars:
        if char != escape:
            out += "\\\\" if char == "\\" else char
            continue
        following = next(chars, "")
        if following not in (escape, "%", "_"):
            raise ValueError(f"in the pattern '{pattern}', '{escape}' precedes neither '%', '_' nor '{escape}'")
        out += f"\\{following}" if following in "\\%_" else following
    return out


def pattern_regex(pattern: str) -> str:
    """Return a regular expression, for Python and for RE2, that a whole text matches if it is like `pattern`.

    It has to be applied with a dot that matches line ends, too.
    """
    return "".join(
        _WILD[m["wild"]] if m["wild"] else _quoted(m["plain"] or m["other"]) for m in _PIECE.finditer(pattern)
    )


def pattern_prefix(pattern: str) -> str:
    """Return the text that begins every text that is like `pattern`."""
    out = ""
    for m in _PIECE.finditer(pattern):
        if m["wild"]:
            break
        out += m["plain"] or m["other"]
    return out


def simple_pattern(pattern: str) -> tuple[str, bool] | None:
    """Return the text of a pattern without wildcards but a last ``%``, and whether it has that; None for others."""
    wild = [m.end() for m in _PIECE.finditer(pattern) if m["wild"]]
    if not wild or (wild == [len(pattern)] and pattern[-1] == "%"):
        return pattern_prefix(pattern), bool(wild)
    return None


def _quoted(char: str) -> str:
    return char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}"

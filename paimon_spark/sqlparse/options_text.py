"""Parsing of key-value strings: the `options` argument ``'key=value,key=value'``, and partition strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.quoted_text import string_value

_QUOTED = r"'(?:''|\\.|[^'\\])*'|\"(?:\"\"|\\.|[^\"\\])*\""


@dataclass(frozen=True, slots=True)
class Pair:
    """One ``key=value``; `quoted` is set if the value was quoted."""

    key: str
    value: str
    quoted: bool = False


def parse_options(text: str, parameter: str = "options") -> dict[str, str]:
    """Parse ``key=value,key=value``; blanks around keys and values are stripped, and values may be quoted.

    Raises:
        ArgumentError: an item has no ``=`` or no key; `parameter` is the argument name for the message.
    """
    groups = list(split_pairs(text, parameter, separators=","))
    return {pair.key: pair.value for group in groups for pair in group}


def split_pairs(text: str, parameter: str, *, separators: str = ",;") -> Iterator[list[Pair]]:
    """Yield groups of pairs separated by ``,``; if ``;`` is among the separators, it separates the groups.

    Raises:
        ArgumentError: an item is not a ``key=value``.
    """
    ends = re.escape(separators)
    piece = re.compile(
        rf"(?P<key>[^={ends}]*)(?:(?P<eq>=)\s*(?:(?:\w+\s+)?(?P<quoted>{_QUOTED})\s*(?=[{ends}]|$)"
        rf"|(?P<plain>[^{ends}]*)))?(?P<end>[{ends}]|$)",
        re.DOTALL,
    )
    group: list[Pair] = []
    at = 0
    while at <= len(text):
        m = piece.match(text, at)
        if m is None:  # unreachable: every part may be empty
            break
        if m.group().strip().rstrip(separators):
            group.append(_pair(m, parameter))
        if m["end"] != ",":
            if group:
                yield group
            group = []
        if not m["end"]:
            break
        at = m.end()


def _pair(m: re.Match[str], parameter: str) -> Pair:
    key = m["key"].strip().strip("`").strip()
    if len(key) > 1 and key[0] == key[-1] and key[0] in "'\"":
        key = key[1:-1].strip()
    if not m["eq"] or not key:
        raise ArgumentError(
            f"'{m.group().strip().rstrip(',;')}' in the argument '{parameter}' is not a 'key=value' pair.",
            hint="Write pairs as key=value, separated by commas.",
        )
    if m["quoted"] is None:
        return Pair(key, m["plain"].strip())
    quote = m["quoted"][0]
    body = m["quoted"][1:-1].replace(quote * 2, "\\" + quote)
    return Pair(key, string_value(f"{quote}{body}{quote}"), quoted=True)

"""Key-value strings: ``'key=value,key=value'`` of the `options` argument, and the pairs of a partition string."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from paimon_spark.errors import ArgumentError
from paimon_spark.sqlparse.literals import string_value

_QUOTED = r"'(?:''|\\.|[^'\\])*'|\"(?:\"\"|\\.|[^\"\\])*\""


@dataclass(frozen=True, slots=True)
class Pair:
    """One ``key=value``; `quoted` tells whether quotes were taken off the value."""

    key: str
    value: str
    quoted: bool = False


def parse_options(text: str, parameter: str = "options") -> dict[str, str]:
    """Parse ``key=value,key=value``; blanks around keys and values are dropped, a value may stand in quotes.

    Raises:
        ArgumentError: a piece has no ``=`` or no key; `parameter` names the argument in the message.
    """
    groups = list(split_pairs(text, parameter, separators=","))
    return {pair.key: pair.value for group in groups for pair in group}


def split_pairs(text: str, parameter: str, *, separators: str = ",;") -> Iterator[list[Pair]]:
    """Yield the pairs joined by ``,``; with ``;`` among the separators, one group for each alternative.

    Raises:
        ArgumentError: a piece is no ``key=value``.
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
            f"'{m.group().strip().rstrip(',;')}' in the argument '{parameter}' is no 'key=value' pair.",
            hint="Write pairs as key=value, joined with commas.",
        )
    if m["quoted"] is None:
        return Pair(key, m["plain"].strip())
    quote = m["quoted"][0]
    body = m["quoted"][1:-1].replace(quote * 2, "\\" + quote)
    return Pair(key, string_value(f"{quote}{body}{quote}"), quoted=True)

"""The time of the values of a partition (docs/spec/semantics.md, E6)."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from paimon_spark.errors import OptionError
from paimon_spark.spec.options import CoreOptions

_DEFAULT = re.compile(
    r"(-?\d{1,10})-(-?\d{1,2})-(-?\d{1,2})(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.\d{1,9})?)?", re.A
)
_UNITS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_MONTHS = 12
_LONGEST = 31


def partition_time(values: Sequence[tuple[str, str | None]], options: CoreOptions) -> datetime | None:
    """Return the time of a partition, without a zone; None if its values cannot be parsed as a time.

    Args:
        values: the partition columns with their values as text, in order.
        options: `partition.timestamp-pattern` and `partition.timestamp-formatter` of the table.

    Raises:
        OptionError: the formatter is not one of numbers.
    """
    pattern = options.get("partition.timestamp-pattern")
    text = values[0][1] if pattern is None else _filled(pattern, dict(values))
    if text is None:
        return None
    formatter = options.get("partition.timestamp-formatter")
    return _lenient(text) if formatter is None else _parsed(text, formatter)


def _filled(pattern: str, values: Mapping[str, str | None]) -> str | None:
    """Return the pattern with values for names, of which the longest counts; None if one that it has is null."""
    names = "|".join(re.escape(name) for name in sorted(values, key=len, reverse=True))
    reference = re.compile(rf"\$({names})")
    if any(values[name] is None for name in reference.findall(pattern)):
        return None
    return reference.sub(lambda found: values[found[1]] or "", pattern)


def _lenient(text: str) -> datetime | None:
    """Parse a date or a date and time; fields that are too large carry over."""
    found = _DEFAULT.fullmatch(text)
    if found is None:
        return None
    year, month, day, *time = (int(g or 0) for g in found.groups())
    years, month = divmod(month - 1, _MONTHS)
    hour, minute, second = time
    try:
        start = datetime(year + years, month + 1, 1)
        return start + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    except (ValueError, OverflowError):
        return None


def _parsed(text: str, formatter: str) -> datetime | None:
    pattern, units = _compiled(formatter)
    found = pattern.fullmatch(text)
    if found is None:
        return None
    fields = {u: int(g) for u, g in zip(units, found.groups(), strict=True)}
    if not {"year", "month", "day"} <= fields.keys():
        return None
    try:
        year, month, day = (fields.pop(u) for u in ("year", "month", "day"))
        last = calendar.monthrange(year, month)[1]
        hour, minute, second = (fields.get(u, 0) for u in ("hour", "minute", "second"))
        return datetime(year, month, min(day, last) if day <= _LONGEST else 0, hour, minute, second)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=16)
def _compiled(formatter: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern of numbers as a regular expression, and the unit of each group.

    Raises:
        OptionError: a letter of the pattern is not supported.
    """
    expression, units = "", []
    for run in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", formatter, re.S):
        quoted, letter, whole = run.group(1), run.group(2), run.group(0)
        if letter is None:
            literal = "'" if quoted == "" else whole if quoted is None else quoted.replace("''", "'")
            expression += re.escape(literal)
        elif letter == "S":
            expression += rf"\d{{{len(whole)}}}"
        elif letter in _UNITS and _UNITS[letter] not in units:
            units.append(_UNITS[letter])
            expression += rf"(\d{{{len(whole)}}})" if len(whole) > 1 else r"(\d{1,2})"
        else:
            raise OptionError(
                f"The option 'partition.timestamp-formatter' = '{formatter}' has the letters '{whole}', which are not "
                "supported.",
                hint="Use yyyy, MM, dd, HH, mm, ss and SSS, each once, and other characters in single quotes.",
            )
    return re.compile(expression, re.A), tuple(units)

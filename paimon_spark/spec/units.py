"""Durations and memory sizes in options and arguments (docs/spec/semantics.md, section 21)."""

from __future__ import annotations

import re
from fractions import Fraction

from paimon_spark.errors import OptionError

_N = r"\d{1,40}"
"""More digits than any valid number has, and less than Python's own limit."""
_QUANTITY = re.compile(rf"({_N})\s*([a-zµμ]*)")
_ISO = re.compile(
    rf"(?P<sign>-?)p(?:(?P<d>{_N})d)?(?:t(?:(?P<h>{_N})h)?(?:(?P<m>{_N})m)?(?:(?P<s>{_N}(?:\.\d{{1,9}})?)s)?)?"
)
_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000, 3_600_000, 60_000, 1000
_MILLIS: dict[str, Fraction] = {
    **dict.fromkeys(("d", "day", "days"), Fraction(_DAY)),
    **dict.fromkeys(("h", "hour", "hours"), Fraction(_HOUR)),
    **dict.fromkeys(("min", "m", "minute", "minutes"), Fraction(_MINUTE)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(_SECOND)),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), Fraction(1)),
    **dict.fromkeys(("µs", "μs", "micro", "micros", "microsecond", "microseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), Fraction(1, 1_000_000)),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
UNIT_OF_DURATIONS = "A number alone is milliseconds."


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of ``1 h``, ``10min``, ``500`` (milliseconds) or ISO ``PT1H``; fractions are truncated.

    Raises:
        OptionError: the text is not a duration.
    """
    word = text.strip().lower()
    m = _QUANTITY.fullmatch(word)
    if m and m[2] in _MILLIS:
        millis = int(m[1]) * _MILLIS[m[2]]
        if millis <= MAX_LONG:
            return int(millis)
    iso = _ISO.fullmatch(word)
    if iso and any(iso[part] for part in "dhms"):
        whole = int(iso["d"] or 0) * _DAY + int(iso["h"] or 0) * _HOUR + int(iso["m"] or 0) * _MINUTE
        total = int(whole + Fraction(iso["s"] or 0) * _SECOND)
        if total <= MAX_LONG:
            return -total if iso["sign"] else total
    raise OptionError(
        f"'{text}' is not a duration.",
        hint=f"Write a number and a unit, such as 1 h, 30 min or 500 ms. {UNIT_OF_DURATIONS}",
    )


def format_duration(millis: int) -> str:
    """Return a duration in seconds, or in milliseconds if it is shorter than one."""
    return f"{millis} ms" if millis < _SECOND else f"{millis / _SECOND:g} s"


def parse_memory(text: str) -> int:
    """Return the bytes of ``256 mb``, ``64kb``, ``1g`` or a plain number; ``infinite`` is the largest.

    Raises:
        OptionError: the text is not a memory size.
    """
    word = text.strip().lower()
    m = _QUANTITY.fullmatch(word)
    if m and m[2] in _BYTES and int(m[1]) * _BYTES[m[2]] <= MAX_LONG:
        return int(m[1]) * _BYTES[m[2]]
    if word == "infinite":
        return MAX_LONG
    raise OptionError(
        f"'{text}' is not a memory size.", hint="Write a number and a unit, such as 64 kb, 256 mb or 1 gb."
    )


def format_memory(size: int) -> str:
    """Return `size` bytes as the text of an option, in the largest unit that divides it."""
    for unit in ("tb", "gb", "mb", "kb"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]} {unit}"
    return f"{size} b"

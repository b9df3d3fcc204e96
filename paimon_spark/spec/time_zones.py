"""Time zones in every spelling that Java accepts."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_ZERO = ("Z", "UTC", "GMT", "UT")
SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""The abbreviations of zones that Java, and therefore Spark, accepts: `java.time.ZoneId.SHORT_IDS`."""


def time_zone(text: str) -> tzinfo:
    """Return the time zone of a text: a region such as Asia/Tokyo, an abbreviation, or an offset such as +02:00.

    Raises:
        ValueError: there is no such time zone.
    """
    given = text.strip()
    name = SHORT_IDS.get(given, given)
    if name in _ZERO:
        return UTC
    offset = _OFFSET.fullmatch(name)
    try:
        return ZoneInfo(name) if offset is None else _fixed(*offset.groups())
    except (KeyError, ValueError, OSError) as e:
        raise ValueError(f"there is no time zone {given!r}") from e


def _fixed(sign: str, *parts: str | None) -> timezone:
    hours, minutes, seconds = (int(part or 0) for part in parts)
    length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-length if sign == "-" else length)

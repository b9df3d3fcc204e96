"""The time zone of a session, in every spelling that Spark accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from paimon_spark.errors import OptionError

SESSION_ZONE = "spark.sql.session.timeZone"
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


def session_zone(conf: Mapping[str, str]) -> tzinfo:
    """Return the zone in which the session reads and shows times: a region such as Asia/Tokyo, or an offset.

    Raises: OptionError: the zone is unknown.
    """
    given = conf[SESSION_ZONE].strip()
    text = SHORT_IDS.get(given, given)
    if text in _ZERO:
        return UTC
    try:
        offset = _OFFSET.fullmatch(text)
        return ZoneInfo(text) if offset is None else _fixed(*offset.groups())
    except (KeyError, ValueError, OSError) as error:
        raise OptionError(
            f"{SESSION_ZONE} is {given!r}, which is not a known time zone.",
            hint="Set it to a region such as Europe/Paris, or to an offset such as +02:00.",
        ) from error


def _fixed(sign: str, *parts: str | None) -> timezone:
    hours, minutes, seconds = (int(part or 0) for part in parts)
    length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-length if sign == "-" else length)

"""The time zone of a session, in every spelling that Spark takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

SESSION_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_ZERO = ("Z", "UTC", "GMT", "UT")


def session_zone(conf: Mapping[str, str]) -> tzinfo:
    """Return the zone in which the session reads and shows times: a region such as Asia/Tokyo, or an offset."""
    text = conf[SESSION_ZONE].strip()
    if text in _ZERO:
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        return ZoneInfo(text)
    hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
    length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-length if offset[1] == "-" else length)

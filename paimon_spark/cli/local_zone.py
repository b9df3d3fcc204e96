"""The time zone of this machine."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, tzinfo
from zoneinfo import available_timezones


class LocalZone(tzinfo):
    """The time zone of this machine, including past and future offsets."""

    @property
    def key(self) -> str:
        """Return the name of the zone's region; UTC if the machine does not provide it."""
        name = (
            os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
        )
        return name if name in available_timezones() else "UTC"

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the UTC offset of the local time."""
        return moment.replace(tzinfo=None).astimezone().utcoffset() if moment is not None else None

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: the system does not provide it."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the name of the zone."""
        return moment.replace(tzinfo=None).astimezone().tzname() if moment is not None else None

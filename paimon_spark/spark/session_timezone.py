"""The time zone of a session, in every spelling that Spark accepts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from paimon_spark.errors import OptionError
from paimon_spark.spec.time_zones import time_zone

SESSION_ZONE = "spark.sql.session.timeZone"


def session_zone(conf: Mapping[str, str]) -> tzinfo:
    """Return the zone in which the session reads and shows times: a region such as Asia/Tokyo, or an offset.

    Raises: OptionError: the zone is unknown.
    """
    given = conf[SESSION_ZONE].strip()
    try:
        return time_zone(given)
    except ValueError as error:
        raise OptionError(
            f"{SESSION_ZONE} is {given!r}, which is not a known time zone.",
            hint="Set it to a region such as Europe/Paris, or to an offset such as +02:00.",
        ) from error

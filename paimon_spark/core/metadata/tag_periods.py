"""Names of automatic tags: the time that a name stands for (docs/spec/semantics.md, section 15)."""

from __future__ import annotations

import re
from datetime import datetime

from paimon_spark.spec.options import CoreOptions

_DAY, _HOUR, _MINUTE = r"(\d{4})-(\d\d)-(\d\d)", r"(\d{4})-(\d\d)-(\d\d) (\d\d)", r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"
_PATTERNS = {
    ("daily", "with_dashes"): _DAY,
    ("daily", "without_dashes"): r"(\d{4})(\d\d)(\d\d)",
    ("daily", "without_dashes_and_spaces"): r"(\d{4})(\d\d)(\d\d)",
    ("hourly", "with_dashes"): _HOUR,
    ("hourly", "without_dashes"): r"(\d{4})(\d\d)(\d\d) (\d\d)",
    ("hourly", "without_dashes_and_spaces"): r"(\d{4})(\d\d)(\d\d)(\d\d)",
}


def tag_time(name: str, options: CoreOptions) -> datetime | None:
    """Return the time that the name of an automatic tag stands for, or None for the name of another tag."""
    period = options.word("tag.creation-period")
    if options.is_set("tag.creation-period-duration"):
        pattern = _MINUTE
    elif period == "two-hours":
        pattern = _HOUR
    else:
        pattern = _PATTERNS[period, options.word("tag.period-formatter")]
    text = name.split(" ")[0] if period == "daily" and pattern != _MINUTE else name
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None:
        return None
    try:
        year, month, day, hour, minute, *_ = (*map(int, found.groups()), 0, 0)
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None

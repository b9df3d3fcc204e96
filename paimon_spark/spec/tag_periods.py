"""Periods and names of automatic tags (docs/spec/semantics.md, section 15)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

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
_FORMS = {
    _DAY: "%Y-%m-%d",
    _HOUR: "%Y-%m-%d %H",
    _MINUTE: "%Y%m%d%H%M",
    _PATTERNS["daily", "without_dashes"]: "%Y%m%d",
    _PATTERNS["hourly", "without_dashes"]: "%Y%m%d %H",
    _PATTERNS["hourly", "without_dashes_and_spaces"]: "%Y%m%d%H",
}
_PERIODS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}
_EPOCH = datetime(1970, 1, 1)


def tag_period(options: CoreOptions) -> timedelta:
    """Return the time between two automatic tags."""
    own = options.duration_ms_or_none("tag.creation-period-duration")
    return _PERIODS[options.word("tag.creation-period")] if own is None else timedelta(milliseconds=own)


def previous_period(time: datetime, options: CoreOptions) -> datetime:
    """Return the start of the period before the one that contains a time."""
    period = tag_period(options)
    return _EPOCH + (time - _EPOCH) // period * period - period


def tag_name(time: datetime, options: CoreOptions) -> str:
    """Return the name of the automatic tag of a period, by the start of the period."""
    return time.strftime(_FORMS[_pattern(options)])


def tag_time(name: str, options: CoreOptions) -> datetime | None:
    """Return the time in the name of an automatic tag, or None for the name of another tag."""
    pattern = _pattern(options)
    daily = pattern != _MINUTE and options.word("tag.creation-period") == "daily"
    found = re.fullmatch(pattern, name.split(" ")[0] if daily else name, re.ASCII)
    if found is None:
        return None
    try:
        year, month, day, hour, minute, *_ = (*map(int, found.groups()), 0, 0)
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None


def _pattern(options: CoreOptions) -> str:
    period = options.word("tag.creation-period")
    if options.get("tag.creation-period-duration") is not None:
        return _MINUTE
    return _HOUR if period == "two-hours" else _PATTERNS[period, options.word("tag.period-formatter")]

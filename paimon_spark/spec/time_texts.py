"""Times as text for people, in results, messages and pages."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def clock_text(at: datetime) -> str:
    """Return a wall-clock time to the second: ``2024-05-14 10:00:00``."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def time_text(millis: int, zone: tzinfo | None = UTC, *, fraction: bool = False) -> str:
    """Return an epoch time as the clocks of a zone show it.

    Args:
        millis: the time.
        zone: the zone; None is that of this machine.
        fraction: with milliseconds.
    """
    at = datetime.fromtimestamp(millis / 1000, zone)
    return clock_text(at) + (f".{millis % 1000:03}" if fraction else "")

"""Values that come from the JVM, and the zone that its times are in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paimon_spark.spark.values import value_from_jvm, value_to_jvm
from paimon_spark.spark.zones import SESSION_ZONE, session_zone
from paimon_spark.spec.types import parse_atomic


def test_a_float_is_what_the_column_stores() -> None:
    stored = value_from_jvm("0.1", parse_atomic("FLOAT"))
    assert stored == 0.10000000149011612
    assert value_from_jvm(value_to_jvm(stored), parse_atomic("FLOAT")) == stored
    assert value_from_jvm("0.1", parse_atomic("DOUBLE")) == 0.1
    assert value_from_jvm("Infinity", parse_atomic("FLOAT")) == float("inf")


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("Asia/Tokyo", 9),
        ("+05:30", 5.5),
        ("-8", -8),
        ("GMT-8", -8),
        ("UTC+01:00", 1),
        ("+01:30:30", 1.5 + 30 / 3600),
        ("Z", 0),
        ("GMT", 0),
    ],
)
def test_zones_in_every_spelling(text: str, hours: float) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC).astimezone(session_zone({SESSION_ZONE: text}))
    assert moment.utcoffset() == timedelta(hours=hours)

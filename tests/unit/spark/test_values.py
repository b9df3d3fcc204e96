"""Values that come from the JVM, and the zone that its times are in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.spark.session_timezone import SESSION_ZONE, session_zone
from paimon_spark.spark.values import value_from_jvm, value_to_jvm
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
        ("PST", -8),
        ("IST", 5.5),
        ("CST", -6),
        ("ECT", 1),
        ("JST", 9),
        ("EST", -5),
        ("HST", -10),
    ],
)
def test_zones_in_every_spelling(text: str, hours: float) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC).astimezone(session_zone({SESSION_ZONE: text}))
    assert moment.utcoffset() == timedelta(hours=hours)


def test_an_abbreviation_has_the_summer_time_of_its_region() -> None:
    for text, hours in (("PST", -7), ("CST", -5), ("ECT", 2), ("MST", -7), ("EST", -5)):
        moment = datetime(2026, 7, 1, tzinfo=UTC).astimezone(session_zone({SESSION_ZONE: text}))
        assert moment.utcoffset() == timedelta(hours=hours), text


@pytest.mark.parametrize(
    "text", ["Mars/Olympus", "", "Asia", "/etc/localtime", "../zoneinfo", "+99:00", "SystemV/AST4"]
)
def test_an_unknown_zone_is_told_by_its_name(text: str) -> None:
    with pytest.raises(OptionError, match=r"spark\.sql\.session\.timeZone is ") as caught:
        session_zone({SESSION_ZONE: text})
    assert str(caught.value).startswith("[INVALID_OPTION]")
    assert repr(text) in str(caught.value)

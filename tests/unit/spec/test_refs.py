"""Tags, consumers and branch names."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from paimon_spark.errors import ArgumentError, CorruptTableError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.refs import Consumer, Tag, check_branch_name, duration_text, parse_consumer, parse_tag
from paimon_spark.spec.snapshot import Snapshot

SNAPSHOT = Snapshot(
    id=3,
    schema_id=0,
    base_manifest_list="b",
    delta_manifest_list="d",
    commit_user="u",
    commit_identifier=1,
    commit_kind=CommitKind.APPEND,
    time_millis=5,
    total_record_count=2,
    delta_record_count=1,
    extra={"writerVersion": "x"},
)


def _tag(**more: Any) -> Tag:
    return parse_tag(json.dumps(json.loads(SNAPSHOT.to_json()) | more), "tag-x")


def test_round_trip() -> None:
    plain = Tag(SNAPSHOT)
    assert parse_tag(plain.to_json(), "tag-x") == plain
    assert "tagCreateTime" not in plain.to_json()
    kept = Tag(SNAPSHOT, datetime(2026, 11, 21, 9, 0, 0, 250000), timedelta(hours=26, milliseconds=500))
    assert parse_tag(kept.to_json().encode(), "tag-x") == kept
    assert json.loads(kept.to_json())["tagCreateTime"] == [2026, 11, 21, 9, 0, 0, 250000000]
    assert kept.time_retained_text == "PT26H0.5S"


@pytest.mark.parametrize("value", [[2026, 1, 2, 3, 4], "2026-01-02T03:04:00", [2026, 1, 2, 3, 4, 0, 0]])
def test_times_of_other_writers(value: Any) -> None:
    assert _tag(tagCreateTime=value, tagTimeRetained=93600.5) == Tag(
        SNAPSHOT, datetime(2026, 1, 2, 3, 4), timedelta(seconds=93600.5)
    )
    assert _tag(tagTimeRetained="PT1H").time_retained == timedelta(hours=1)


@pytest.mark.parametrize(
    "more",
    [
        {"tagCreateTime": [2026, 13, 1]},
        {"tagCreateTime": 5},
        {"tagTimeRetained": "soon"},
        {"tagTimeRetained": []},
        {"id": None},
    ],
)
def test_malformed_tags(more: dict[str, Any]) -> None:
    with pytest.raises(CorruptTableError, match="tag-x"):
        _tag(**more)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=1), "PT24H"),
        (timedelta(hours=1, minutes=30), "PT1H30M"),
        (timedelta(milliseconds=500), "PT0.5S"),
        (timedelta(), "PT0S"),
        (timedelta(seconds=61), "PT1M1S"),
    ],
)
def test_durations_print_as_in_java(span: timedelta, text: str) -> None:
    assert duration_text(span) == text


def test_consumers() -> None:
    assert Consumer(7).to_json() == '{\n  "nextSnapshot": 7\n}'
    for consumer, needed in ((Consumer(7), 7), (Consumer(7, 12, "lookup", needs_previous=True), 6)):
        assert parse_consumer(consumer.to_json(), "consumer-x") == consumer
        assert consumer.first_needed == needed
    for bad in ("", "{}", "[]", '{"nextSnapshot": "7"}'):
        with pytest.raises(CorruptTableError, match="consumer-x"):
            parse_consumer(bad, "consumer-x")


def test_branch_names() -> None:
    assert check_branch_name(" b1 ") == "b1"
    for bad in ("main", "12", "", "a/b", "a$b"):
        with pytest.raises(ArgumentError):
            check_branch_name(bad)

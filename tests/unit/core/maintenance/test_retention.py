from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.core.maintenance.retention import RetentionRule, choose_end
from paimon_spark.errors import ArgumentError

FOREVER = 1 << 31


def rule(**values: int) -> RetentionRule:
    base = {"retain_max": FOREVER, "retain_min": 1, "older_than_millis": 0, "max_deletes": FOREVER}
    return RetentionRule(**(base | values))


def end(rule: RetentionRule, first: int, times: list[int], floor: int | None = None) -> int:
    known = dict(enumerate(times, first))
    return choose_end(rule, first, first + len(times) - 1, consumer_floor=floor, time_of=known.get)


def test_a_snapshot_lives_until_its_successor_is_too_old() -> None:
    assert end(rule(older_than_millis=35), 1, [0, 10, 20, 30, 40]) == 4


def test_one_run_is_limited() -> None:
    assert end(rule(retain_min=10, max_deletes=50, older_than_millis=100), 1, [0] * 60) == 51


def test_the_excess_goes_and_a_young_successor_protects_the_rest() -> None:
    assert end(rule(retain_max=3, older_than_millis=999), 1, [1000] * 6) == 4
    assert end(rule(retain_max=3, older_than_millis=1004), 1, [1000, 1001, 1002, 1003, 1003, 1004]) == 5


def test_a_consumer_holds_what_it_has_still_to_read() -> None:
    assert end(rule(older_than_millis=100), 1, [0] * 20, floor=3) == 3
    assert end(rule(older_than_millis=100), 5, [0] * 20, floor=3) == 3


def test_age_and_maximum_work_together_over_a_day() -> None:
    times = [600, 620, 640, 660, 680, 690, 695, 696]
    first, removed = 1, []
    for n in range(1, len(times) + 1):
        now = times[n - 1]
        until = end(rule(retain_max=5, retain_min=2, older_than_millis=now - 59), first, times[first - 1 : n])
        removed.append(max(until - first, 0))
        first = max(until, first)
    assert removed == [0, 0, 0, 0, 1, 0, 1, 1]


def test_a_gap_is_stepped_over() -> None:
    assert choose_end(rule(older_than_millis=9), 1, 4, consumer_floor=None, time_of=lambda i: {4: 0}.get(i)) == 4


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"retain_max": 2, "retain_min": 10}, "10"),
        ({"retain_min": 0}, "retain_min"),
        ({"max_deletes": 0}, "max_deletes"),
    ],
)
def test_numbers_that_contradict_each_other(values: dict[str, int], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        rule(**values).check()


@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=30).map(sorted),
    retain_min=st.integers(1, 12),
    extra=st.integers(0, 12),
    cutoff=st.integers(0, 120),
    limit=st.integers(1, 40),
    floor=st.none() | st.integers(1, 40),
)
def test_the_minimum_the_limit_and_consumers_always_hold(
    times: list[int], retain_min: int, extra: int, cutoff: int, limit: int, floor: int | None
) -> None:
    r = rule(retain_min=retain_min, retain_max=retain_min + extra, older_than_millis=cutoff, max_deletes=limit)
    until = max(end(r, 1, times, floor), 1)
    kept = len(times) - (until - 1)
    assert kept >= min(retain_min, len(times))
    assert until - 1 <= limit
    assert floor is None or until == 1 or until <= floor
    beyond = len(times) - r.retain_max
    assert all(times[i] < cutoff for i in range(max(beyond + 1, 1), until))

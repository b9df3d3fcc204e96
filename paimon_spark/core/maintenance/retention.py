"""Retention: which snapshots and changelogs may expire, computed without I/O (docs/spec/semantics.md, E1, E2, E4, E5).

A snapshot is retained until its *successor* is older than the retention time: a query that started just before the
successor was committed still finds its files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paimon_spark.errors import ArgumentError

_WORTHWHILE = 100
"""One in so many references has to expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """How much history to retain. A successor committed at `older_than_millis` or later protects its predecessor."""

    retain_max: int
    retain_min: int
    older_than_millis: int
    max_deletes: int

    def check(self) -> RetentionRule:
        """Validate the rule and return it.

        Raises:
            ArgumentError: the limits contradict each other.
        """
        if self.retain_min < 1:
            raise ArgumentError(
                f"retain_min is {self.retain_min}, but the newest snapshot always stays.",
                hint="Give 1 or more.",
            )
        if self.retain_max < 1:
            raise ArgumentError(
                f"retain_max is {self.retain_max}, but the latest snapshot is always kept.",
                hint="Give 1 or more.",
            )
        if self.retain_max < self.retain_min:
            raise ArgumentError(
                f"retain_max ({self.retain_max}) is less than retain_min ({self.retain_min}).",
                hint="Give a smaller retain_min too, or set the table option 'snapshot.num-retained.min'.",
            )
        if self.max_deletes < 1:
            raise ArgumentError(f"max_deletes is {self.max_deletes}.", hint="Give 1 or more.")
        return self


def choose_end(
    rule: RetentionRule,
    earliest: int,
    latest: int,
    *,
    consumer_floor: int | None,
    time_of: Callable[[int], int | None],
) -> int:
    """Return the exclusive end of the snapshots to expire; `earliest` or less means none.

    Args:
        rule: how much history to retain.
        earliest: id of the oldest snapshot.
        latest: id of the newest snapshot.
        consumer_floor: smallest snapshot id that a consumer has not read yet.
        time_of: commit time of a snapshot in epoch milliseconds, None if it does not exist.
    """
    begin = max(latest - rule.retain_max + 1, earliest)
    end = min(latest - rule.retain_min + 1, earliest + rule.max_deletes)
    if consumer_floor is not None:
        end = min(end, consumer_floor)
    for snapshot_id in range(begin, end):
        successor_time = time_of(snapshot_id + 1)
        if successor_time is not None and successor_time >= rule.older_than_millis:
            return snapshot_id
    return end


def choose_changelog_end(
    rule: RetentionRule,
    earliest: int,
    last: int,
    latest: int,
    *,
    consumer_floor: int | None,
    time_of: Callable[[int], int | None],
) -> int:
    """Return the exclusive end of the long-lived changelogs to expire; `earliest` or less means none.

    The limits count from the latest snapshot, because the changelogs of snapshots count too. The last long-lived
    changelog stays.

    Args:
        rule: how much history to retain.
        earliest: id of the oldest long-lived changelog.
        last: id of the newest long-lived changelog.
        latest: id of the newest snapshot.
        consumer_floor: smallest snapshot id that a consumer has not read yet.
        time_of: commit time of a long-lived changelog in epoch milliseconds, None if it does not exist.
    """
    begin = max(latest - rule.retain_max + 1, earliest)
    end = min(latest - rule.retain_min + 1, earliest + rule.max_deletes, last)
    if consumer_floor is not None:
        end = min(end, consumer_floor)
    for changelog_id in range(begin, end):
        time = time_of(changelog_id)
        if time is not None and time >= rule.older_than_millis:
            return changelog_id
    return end


def least_expiring(rule: RetentionRule, first: int, latest: int, references: int) -> int:
    """Return how many snapshots or changelogs an expiry after a commit waits for; 1 if there are more than the maximum.

    Args:
        rule: how much history to retain.
        first: id of the oldest one.
        latest: id of the newest snapshot.
        references: number of snapshots and long-lived changelogs, all of which an expiry reads.
    """
    return 1 if latest - first >= rule.retain_max else max(1, min(references // _WORTHWHILE, rule.max_deletes))

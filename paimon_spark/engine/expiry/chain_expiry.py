"""The partitions of a chain table that may expire: whole segments, oldest first (docs/spec/semantics.md, Y9).

A segment is a partition of the snapshot branch with the deltas up to the next one. The newest snapshot before the limit
stays with its deltas, because later partitions are merged from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from paimon_spark.spec.chain_tables import ChainOrder

Times = Callable[[bytes], datetime | None]
"""Returns the time of a partition; None if it has none."""


def expired_segments(
    order: ChainOrder, times: Times, snapshots: Iterable[bytes], deltas: Iterable[bytes], limit: datetime, most: int
) -> tuple[list[bytes], list[bytes]]:
    """Return the partitions of the delta branch and of the snapshot branch that expire, in chain order.

    Args:
        order: the order of the partitions.
        times: the times of partitions; those without one stay.
        snapshots: the partitions of the snapshot branch.
        deltas: the partitions of the delta branch.
        limit: segments before the newest snapshot before this time expire.
        most: maximum number of segments of each chain.
    """
    changes = order.grouped(deltas)
    old_deltas: list[bytes] = []
    old_snapshots: list[bytes] = []
    for group, members in order.grouped(snapshots).items():
        timed = [(at, p) for _, p in members if (at := times(p)) is not None and at < limit]
        segments = list(pairwise(timed))[:most]
        if not segments:
            continue
        old_snapshots += [p for (_, p), _ in segments]
        old_deltas += _before(segments[-1][1][0], [p for _, p in changes.get(group, [])], times)
    return old_deltas, old_snapshots


def _before(end: datetime, deltas: Sequence[bytes], times: Times) -> list[bytes]:
    return [p for p in deltas if (at := times(p)) is not None and at < end]

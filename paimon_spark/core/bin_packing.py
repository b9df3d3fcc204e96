"""Small pieces of work together: neighbours share a bin, and what is large has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
TASK_WORK = 16 << 20
"""Neighbours share a task up to so much work, a fraction of a second; starting a task takes about 35 ms."""
SMALL_TASK_WORK = 64 << 20
"""The same for files that are only read, each with next to nothing in it."""
_LEAST_WORK = 1 << 20
"""Less than this is no task of its own, even where processors are idle."""
_FILE_WORK = 256 << 10
"""To open a file and to write another one takes as long as so many bytes of it."""
_TASKS_A_SLOT = 2


def bin_packed(items: Iterable[_T], size_of: Callable[[_T], int], limit: int, cost: int = 0) -> Iterator[list[_T]]:
    """Pack items in order into bins: a bin is closed when the next item would take it past the limit.

    An item counts as much as `cost` at least.
    """
    current: list[_T] = []
    weight = 0
    for item in items:
        own = max(size_of(item), cost)
        if current and weight + own > limit:
            yield current
            current, weight = [], 0
        current.append(item)
        weight += own
    if current:
        yield current


def task_cost(size: int, files: int) -> int:
    """Return the work that so many bytes in so many files are, in bytes."""
    return size + files * _FILE_WORK


def group_tasks(
    items: Sequence[_T], work: Callable[[_T], int], slots: int, most: int = TASK_WORK
) -> Iterator[list[_T]]:
    """Yield items in order, those together that share a task.

    Args:
        items: what one task each could do.
        work: about how much work an item is; see `task_cost`.
        slots: how many tasks run at once; there are two tasks for each of them, where there is work enough.
        most: how much work a task has at most.
    """
    share = sum(map(work, items)) // (max(slots, 1) * _TASKS_A_SLOT)
    return bin_packed(items, work, min(most, max(_LEAST_WORK, share)))

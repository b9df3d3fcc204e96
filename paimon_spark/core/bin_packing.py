"""Ordered bin packing: consecutive small items share a bin, a large item has a bin of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
TASK_WORK = 16 << 20
"""Consecutive items share a task up to this much work, a fraction of a second; starting a task takes about 35 ms."""
SMALL_TASK_WORK = 64 << 20
"""The same limit for files that are only read and nearly empty."""
_LEAST_WORK = 1 << 20
"""Less work than this never gets a task of its own, even if cores are idle."""
_FILE_WORK = 256 << 10
"""Opening one file and writing another takes as long as processing this many bytes."""
_TASKS_A_SLOT = 2


def bin_packed(items: Iterable[_T], size_of: Callable[[_T], int], limit: int, cost: int = 0) -> Iterator[list[_T]]:
    """Pack items in order into bins; a bin is closed when the next item would exceed the limit.

    The weight of an item is its size, and at least `cost`.
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
    """Return the work, in bytes, of processing `size` bytes in `files` files."""
    return size + files * _FILE_WORK


def group_tasks(
    items: Sequence[_T], work: Callable[[_T], int], slots: int, most: int = TASK_WORK
) -> Iterator[list[_T]]:
    """Yield the items in order, grouped by task.

    Args:
        items: units of work, each of which could be a task of its own.
        work: estimated work of an item; see `task_cost`.
        slots: how many tasks run at once; each gets two tasks if there is enough work.
        most: maximum work of a task.
    """
    share = sum(map(work, items)) // (max(slots, 1) * _TASKS_A_SLOT)
    return bin_packed(items, work, min(most, max(_LEAST_WORK, share)))

"""How units of work are put together into tasks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from paimon_spark.core.bin_packing import TASK_WORK, bin_packed, group_tasks, task_cost

SIZES = st.lists(st.one_of(st.integers(0, 300_000), st.integers(0, 200 << 20)), max_size=300)
MB = 1 << 20


def of(size: int) -> int:
    return task_cost(size, 2)


@given(SIZES, st.integers(1, 400))
@example([], 2)
@example([0] * 1000, 2)
def test_tasks_of_drawn_sizes(sizes: list[int], slots: int) -> None:
    tasks = list(group_tasks(sizes, of, slots))
    assert [s for task in tasks for s in task] == sizes
    assert all(tasks)
    assert all(len(task) == 1 or sum(map(of, task)) <= TASK_WORK for task in tasks)
    work = sum(map(of, sizes))
    assert len(tasks) <= 2 * max(work / TASK_WORK, 2 * slots) + 2
    assert len(tasks) <= 2 * work / MB + 1


@given(SIZES, st.integers(1, 20))
def test_no_neighbours_could_have_shared_a_task(sizes: list[int], slots: int) -> None:
    limit = min(TASK_WORK, max(MB, sum(map(of, sizes)) // (2 * slots)))
    tasks = list(group_tasks(sizes, of, slots))
    for task, following in pairwise(tasks):
        assert sum(map(of, task)) + of(following[0]) > limit


def test_as_many_tasks_as_keep_the_processors_busy() -> None:
    assert len(list(group_tasks([5_000] * 1000, of, 2))) == 33
    assert len(list(group_tasks([5_000] * 100, of, 2))) == 4
    assert len(list(group_tasks([5_000] * 100, of, 50))) == 100
    assert len(list(group_tasks([5_000] * 3, of, 50))) == 3
    assert [len(t) for t in group_tasks([100 * MB, 1, 1, 100 * MB, 1], of, 1)] == [1, 2, 1, 1]


@given(st.lists(st.integers(0, 50)), st.integers(1, 100), st.integers(0, 20))
def test_bins(sizes: list[int], limit: int, cost: int) -> None:
    bins = list(bin_packed(sizes, int, limit, cost))
    assert [s for b in bins for s in b] == sizes
    assert all(len(b) == 1 or sum(max(s, cost) for s in b) <= limit for b in bins)

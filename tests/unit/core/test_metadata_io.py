"""Work on many files in threads: its results, and what is kept of it meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import overload

import pytest

from paimon_spark.core.metadata_io import in_parallel, yielded_in_parallel


class Asked(Sequence[int]):
    """The numbers below `size`; `furthest` is the number of those that were asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.furthest = 0

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        numbers = range(self.size)[at]
        self.furthest = max(self.furthest, at + 1 if isinstance(at, int) else min(at.stop, self.size))
        return numbers


@pytest.mark.parametrize("size", [0, 1, 2, 999, 1_000, 1_001, 3_500])
def test_results_come_in_order(size: int) -> None:
    assert in_parallel(lambda n: n * 2, range(size)) == [n * 2 for n in range(size)]


@pytest.mark.parametrize("threads", [1, 2])
def test_only_some_keys_are_given_to_threads_at_a_time(threads: int) -> None:
    keys = Asked(1_000_000)
    results = yielded_in_parallel(str, keys, threads)
    assert [next(results) for _ in range(1_500)] == [str(n) for n in range(1_500)]
    assert keys.furthest < 10_000


def test_keys_that_no_thread_has_begun_are_left_out() -> None:
    begun, lock = set[int](), Lock()

    def work(key: int) -> int:
        with lock:
            begun.add(key)
        if key == 3:
            raise ValueError(key)
        return key

    with pytest.raises(ValueError, match="3"):
        in_parallel(work, Asked(5_000), 2)
    assert max(begun) < 1_000

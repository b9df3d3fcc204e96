"""Dynamic bucket assignment: known keys keep their buckets, each assigner owns some, buckets have a limit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from paimon_spark.core.write.dynamic_buckets import BucketLimits, HashIndex


def assign(index: HashIndex, *hashes: int) -> list[int]:
    return [int(b) for b in index.assign(np.array(hashes, dtype=np.int32))]


def state(index: HashIndex) -> dict[int, list[int]]:
    return {b: sorted(h.tolist()) for b, h in index.gained()}


def test_fills_one_bucket_after_the_other() -> None:
    limits = BucketLimits(target_rows=2)
    index = HashIndex({}, limits)
    assert assign(index, 11, -7) == [0, 0]
    assert assign(index, 5, 6, 11) == [1, 1, 0]
    assert state(index) == {0: [-7, 11], 1: [5, 6]}
    again = HashIndex({b: np.array(h, dtype=np.int32) for b, h in state(index).items()}, limits)
    assert assign(again, 11, 6) == [0, 1]
    assert state(again) == {}


def test_equal_hashes_of_one_batch_share_a_bucket() -> None:
    index = HashIndex({}, BucketLimits(target_rows=1))
    assert assign(index, 3, 3, 9, 3, 9) == [0, 0, 1, 0, 1]


def test_at_the_cap_new_hashes_go_to_existing_buckets() -> None:
    index = HashIndex({}, BucketLimits(target_rows=1, max_buckets=2))
    buckets = assign(index, *range(100))
    assert set(buckets) == {0, 1}
    assert sum(len(h) for h in state(index).values()) == 100


def test_new_hashes_stay_with_their_assigner_known_ones_in_place() -> None:
    limits = BucketLimits(target_rows=10, assigners=3)
    known = {0: np.array([1, 2], dtype=np.int32)}
    index = HashIndex(known, limits)
    assert assign(index, 1, 2) == [0, 0]
    hashes = [h for h in range(-50, 50) if h not in (1, 2)]
    for h, bucket in zip(hashes, assign(index, *hashes), strict=True):
        assert bucket % 3 == h % 3
    assert all(b % 3 == h % 3 or h in (1, 2) for b, hs in state(index).items() for h in hs)


@pytest.mark.parametrize("seed", range(3))
def test_many_batches_equal_a_dict(seed: int) -> None:
    rng = random.Random(seed)
    index = HashIndex({}, BucketLimits(target_rows=50, assigners=2))
    seen: dict[int, int] = {}
    for _ in range(60):
        hashes = [rng.randrange(-500, 500) for _ in range(rng.randint(1, 40))]
        for h, b in zip(hashes, assign(index, *hashes), strict=True):
            assert seen.setdefault(h, b) == b
    assert {h: b for b, hs in state(index).items() for h in hs} == seen
    assert all(len(hs) <= 50 for hs in state(index).values())

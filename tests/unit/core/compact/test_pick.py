"""The pickers against the worked examples of the semantics, without any data."""

from __future__ import annotations

import pytest

from paimon_spark.core.compact.append import AppendOptions, pick_bucketed, pick_bucketed_full, pick_unaware
from paimon_spark.core.compact.pick import CompactUnit, PickOptions, pick, pick_full, unit_of
from paimon_spark.core.levels import SortedRun, max_level, sorted_runs
from paimon_spark.core.metadata.deletion_vectors import VectorRef
from paimon_spark.spec.manifest import DataFileMeta

MB = 1 << 20
TOP = 5


def file(size: int, level: int = 0, *, seq: int = 0, name: str = "f", deletes: int = 0) -> DataFileMeta:
    return DataFileMeta(
        file_name=name, file_size=size, row_count=100, min_sequence_number=seq, max_sequence_number=seq, schema_id=0,
        level=level, delete_row_count=deletes, creation_time=0,
    )  # fmt: skip


def runs(*shape: tuple[int, int]) -> list[SortedRun]:
    """Runs newest first as (level, size)."""
    return [SortedRun(level, (file(size, level),)) for level, size in shape]


def shape(unit: CompactUnit | None) -> tuple[list[int], int] | None:
    return None if unit is None else ([f.file_size for f in unit.files], unit.output_level)


def apply(state: list[SortedRun], unit: CompactUnit) -> list[SortedRun]:
    left = [r for r in state if r.files[0] not in unit.files]
    merged = SortedRun(unit.output_level, (file(sum(f.file_size for f in unit.files), unit.output_level, seq=-1),))
    at = sum(1 for r in left if r.level < unit.output_level)
    return [*left[:at], merged, *left[at:]]


def test_arithmetic_of_runs_of_size_one() -> None:
    state: list[SortedRun] = []
    seen = []
    for step in range(16):
        state = [SortedRun(0, (file(1, seq=step + 1, name=f"f{step}"),)), *state]
        unit = pick(state, PickOptions(), TOP)
        if unit is not None:
            state = apply(state, unit)
            seen.append([(r.size, r.level) for r in state])
    five = (5, 5)
    assert seen[0] == [five]
    assert [[size for size, _ in s] for s in seen] == [[5], [4, 5], [3, 4, 5], [2, 3, 4, 5], [16]]
    assert seen[1] == [(4, 4), five]
    assert seen[2] == [(3, 3), (4, 4), five]
    assert seen[3] == [(2, 2), (3, 3), (4, 4), five]
    assert seen[4] == [(16, 5)]


@pytest.mark.parametrize(("taken", "output"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)])
def test_output_level_of_taken_runs(taken: int, output: int) -> None:
    levels = runs((0, 1), (0, 1), (1, 1), (3, 1), (4, 1))
    assert unit_of(levels, taken, TOP, "x").output_level == output


def test_file_count_extended_by_ratio() -> None:
    options = PickOptions(trigger=3, max_amplification_percent=25)
    assert shape(pick(runs((0, 1), (1, 1), (2, 1), (3, 50)), options, 3)) == ([1, 1, 1], 2)
    assert shape(pick(runs((0, 1), (0, 2), (0, 3), (0, 3)), options, 3)) == ([1, 2, 3, 3], 3)
    assert shape(pick(runs((0, 1), (0, 1), (1, 1), (2, 50)), options, 3)) == ([1, 1, 1], 1)


def test_level_0_is_compacted_when_forced() -> None:
    options = PickOptions(trigger=3, force_up_level_0=True, max_amplification_percent=10**6)
    unit = pick(runs((0, 1), (1, 2), (2, 2)), options, 2)
    assert shape(unit) == ([1, 2, 2], 2)
    assert shape(pick(runs((0, 1), (2, 2)), options, 2)) == ([1], 1)


def test_a_dominant_old_run_is_compacted_with_small_ones() -> None:
    state = runs((0, 1), (0, 1), (0, 1), (0, 1024), (0, 1 << 20))
    assert shape(pick(state, PickOptions(), TOP)) == ([1, 1, 1, 1024, 1 << 20], 5)


def test_early_full_rules() -> None:
    state = runs((0, 10), (5, 100))
    assert pick(state, PickOptions(), TOP) is None
    assert shape(pick(state, PickOptions(total_size_threshold=200), TOP)) == ([10, 100], 5)
    assert shape(pick(state, PickOptions(incremental_size_threshold=5), TOP)) == ([10, 100], 5)
    interval = PickOptions(optimization_interval_millis=1000)
    assert pick(state, interval, TOP, now_millis=500) is None
    assert shape(pick(state, interval, TOP, now_millis=5000)) == ([10, 100], 5)
    assert pick(state[1:], interval, TOP, now_millis=5000) is None


@pytest.mark.parametrize(("hour", "picked"), [(23, True), (3, True), (6, False), (12, False)])
def test_off_peak_ratio_wraps_midnight(hour: int, picked: bool) -> None:
    options = PickOptions(
        trigger=2, offpeak_start=22, offpeak_end=6, offpeak_ratio=100, max_amplification_percent=10**6
    )
    assert (pick(runs((0, 10), (5, 19)), options, TOP, hour=hour) is not None) is picked


def test_requested_full_compaction() -> None:
    assert pick_full([], TOP) == []
    assert pick_full(runs((5, 10)), TOP) == []
    assert [shape(u) for u in pick_full(runs((5, 10)), TOP, must_rewrite=lambda _: True)] == [([10], 5)]
    assert [shape(u) for u in pick_full(runs((0, 1), (4, 10)), TOP)] == [([1, 10], 5)]
    assert [shape(u) for u in pick_full(runs((4, 10)), TOP)] == [([10], 5)]


def test_level_0_runs_are_newest_first_and_levels_grow() -> None:
    files = [file(1, seq=1, name="a"), file(2, seq=9, name="b"), file(3, 7, name="c"), file(4, 2, name="d")]
    assert [(r.level, r.size) for r in sorted_runs(files)] == [(0, 2), (0, 1), (2, 4), (7, 3)]
    assert max_level(files, 6) == 7


def append_options(**values: int) -> AppendOptions:
    return AppendOptions(target_file_size=256 * MB, **values)


def test_unaware_files_are_grouped_by_size() -> None:
    small = [file(10 * MB, name=f"f{i}") for i in range(5)]
    assert [len(g) for g in pick_unaware(small, append_options())] == [5]
    assert pick_unaware(small[:4], append_options()) == []
    assert [len(g) for g in pick_unaware([file(170 * MB, name=str(i)) for i in range(3)], append_options())] == [3]
    assert pick_unaware([file(180 * MB, name=str(i)) for i in range(9)], append_options()) == []


def test_files_with_deleted_rows_are_compacted_with_small_ones() -> None:
    files = [file(MB, name=f"f{i}") for i in range(3)]
    vectors = {"f1": VectorRef("index-0", 1, 20, 1)}
    assert [{f.file_name for f in g} for g in pick_unaware(files, append_options(), vectors)] == [{"f0", "f1", "f2"}]
    assert pick_unaware(files, append_options(), vectors, full=False) == []
    vectors = {"f1": VectorRef("index-0", 1, 20, 21)}
    found = pick_unaware([*files, file(300 * MB, name="large")], append_options(), vectors, full=False)
    assert [{f.file_name for f in g} for g in found] == [{"f0", "f1", "f2"}]


def test_bucketed_append_files_keep_their_order() -> None:
    queue = [file(MB, seq=i, name=f"f{i}") for i in range(1, 5)]
    options = append_options()
    assert pick_bucketed(queue, options) is None
    picked = pick_bucketed([*queue, file(MB, seq=5, name="f5")], options)
    assert picked is not None
    assert [f.file_name for f in picked] == ["f1", "f2", "f3", "f4", "f5"]
    later = [file(5 * MB, seq=1, name="g"), *(file(MB, seq=i, name=f"f{i}") for i in range(6, 10))]
    picked = pick_bucketed(later, options)
    assert picked is not None
    assert [f.file_name for f in picked] == ["g", "f6", "f7", "f8", "f9"]
    assert pick_bucketed_full(queue[:2], options) is None
    full = pick_bucketed_full(queue[:3], options)
    assert full is not None
    assert len(full) == 3


def test_bucketed_window_moves_past_big_files() -> None:
    big = [file(300 * MB, seq=i, name=f"b{i}") for i in range(3)]
    small = [file(MB, seq=10 + i, name=f"s{i}") for i in range(5)]
    picked = pick_bucketed([*big, *small], append_options())
    assert picked is not None
    assert [f.file_name for f in picked] == ["b2", "s0", "s1", "s2", "s3"]

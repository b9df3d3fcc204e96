"""Universal compaction policy: which sorted runs of a bucket to rewrite, and to which level.

(docs/spec/semantics.md, section 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paimon_spark.core.levels import SortedRun
from paimon_spark.spec.manifest import DataFileMeta

_OFF = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PickOptions:
    """Thresholds of the picker, from the table options."""

    trigger: int = 5
    size_ratio: int = 1
    max_amplification_percent: int = 200
    optimization_interval_millis: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    offpeak_start: int = _OFF
    offpeak_end: int = _OFF
    offpeak_ratio: int = 0
    force_up_level_0: bool = False


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """Files to compact together, the output level, and the rule that triggered the compaction."""

    files: tuple[DataFileMeta, ...]
    output_level: int
    reason: str


def pick(
    runs: Sequence[SortedRun], options: PickOptions, top: int, *, hour: int = 0, now_millis: int = 0
) -> CompactUnit | None:
    """Return the next automatic compaction of a bucket, or None.

    Args:
        runs: newest first, as returned by `levels.sorted_runs`.
        options: thresholds.
        top: the highest level of the bucket.
        hour: local hour of day, for the off-peak ratio.
        now_millis: the local wall clock, as in creation times of files, for the optimization interval.
    """
    ratio = options.size_ratio + _offpeak_extra(options, hour)
    unit = (
        _early_full(runs, options, top, now_millis)
        or _amplification(runs, options, top)
        or _size_ratio(runs, options, top, ratio)
        or _file_count(runs, options, top, ratio)
    )
    unit = _worth(unit)
    if unit is None and options.force_up_level_0:
        unit = _worth(_forced_level_0(runs, top, ratio))
    return unit


def pick_full(
    runs: Sequence[SortedRun], top: int, *, must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False
) -> list[CompactUnit]:
    """Return the units of a requested full compaction; none if the bucket is fully compacted."""
    if not runs:
        return []
    if len(runs) == 1 and runs[0].level == top:
        return [CompactUnit((f,), top, "rewrite") for f in runs[0].files if must_rewrite(f)]
    return [_everything(runs, top, "full")]


def _worth(unit: CompactUnit | None) -> CompactUnit | None:
    if unit is None or not unit.files or (len(unit.files) == 1 and unit.files[0].level == unit.output_level):
        return None
    return unit


def _offpeak_extra(options: PickOptions, hour: int) -> int:
    start, end = options.offpeak_start, options.offpeak_end
    if _OFF in (start, end) or start == end:
        return 0
    inside = start <= hour < end if start < end else hour >= start or hour < end
    return options.offpeak_ratio if inside else 0


def _everything(runs: Sequence[SortedRun], top: int, reason: str) -> CompactUnit:
    return CompactUnit(tuple(f for r in runs for f in r.files), top, reason)


def _early_full(runs: Sequence[SortedRun], options: PickOptions, top: int, now_millis: int) -> CompactUnit | None:
    if len(runs) <= 1:
        return None
    if options.optimization_interval_millis is not None:
        last = max((f.creation_time or 0 for r in runs if r.level == top for f in r.files), default=None)
        if last is None or now_millis - last > options.optimization_interval_millis:
            return _everything(runs, top, "optimization-interval")
    total = sum(r.size for r in runs)
    if options.total_size_threshold is not None and total < options.total_size_threshold:
        return _everything(runs, top, "total-size")
    below = sum(r.size for r in runs if r.level != top)
    if options.incremental_size_threshold is not None and below > options.incremental_size_threshold:
        return _everything(runs, top, "incremental-size")
    return None


def _amplification(runs: Sequence[SortedRun], options: PickOptions, top: int) -> CompactUnit | None:
    if len(runs) < options.trigger:
        return None
    upper = sum(r.size for r in runs[:-1])
    if upper * 100 > options.max_amplification_percent * runs[-1].size:
        return _everything(runs, top, "size-amplification")
    return None


def _size_ratio(runs: Sequence[SortedRun], options: PickOptions, top: int, ratio: int) -> CompactUnit | None:
    if len(runs) < options.trigger:
        return None
    taken = _extend(runs, 1, ratio)
    return unit_of(runs, taken, top, "size-ratio") if taken > 1 else None


def _file_count(runs: Sequence[SortedRun], options: PickOptions, top: int, ratio: int) -> CompactUnit | None:
    if len(runs) <= options.trigger:
        return None
    taken = _extend(runs, len(runs) - options.trigger + 1, ratio)
    return unit_of(runs, taken, top, "file-count") if taken > 1 else None


def _forced_level_0(runs: Sequence[SortedRun], top: int, ratio: int) -> CompactUnit | None:
    taken = sum(1 for r in runs if r.level == 0)
    if taken == 0:
        return None
    if taken < len(runs) and runs[taken].level == 1:
        taken += 1
    return unit_of(runs, _extend(runs, taken, ratio), top, "level-0")


def _extend(runs: Sequence[SortedRun], taken: int, ratio: int) -> int:
    """Return how many of the newest runs to pick: `taken`, plus each next run within the size ratio of the sum."""
    total = sum(r.size for r in runs[:taken])
    while taken < len(runs) and total * (100 + ratio) >= runs[taken].size * 100:
        total += runs[taken].size
        taken += 1
    return taken


def unit_of(runs: Sequence[SortedRun], taken: int, top: int, reason: str) -> CompactUnit:
    """Return the unit of the `taken` newest runs; level 0 is never an output level."""
    if taken == len(runs):
        return _everything(runs, top, reason)
    level = max(0, runs[taken].level - 1)
    if level == 0:
        level = top
        while taken < len(runs):
            taken += 1
            if runs[taken - 1].level != 0:
                level = runs[taken - 1].level
                break
    return _everything(runs[:taken], top if taken == len(runs) else level, reason)

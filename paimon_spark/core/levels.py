"""The LSM tree of one bucket as values: sorted runs, levels, and sections of overlapping key ranges."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from paimon_spark.core.char_values import padded_value
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.types import DataType

KeyRange = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files with pairwise disjoint key ranges. A level-0 file is a run of its own."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size(self) -> int:
        """Return the total size of the files in bytes."""
        return sum(f.file_size for f in self.files)


def sorted_runs(files: Iterable[DataFileMeta]) -> list[SortedRun]:
    """Return the runs of a bucket: level-0 files newest first, then the levels from 1 up.

    The files of a run are in the order of `files`. Manifests list them as they were added, not in key order.
    """
    levels: dict[int, list[DataFileMeta]] = {}
    for f in files:
        levels.setdefault(f.level, []).append(f)
    newest_first = sorted(levels.pop(0, ()), key=_age)
    runs = [SortedRun(0, (f,)) for f in newest_first]
    return runs + [SortedRun(level, tuple(levels[level])) for level in sorted(levels)]


def _age(f: DataFileMeta) -> tuple[int, int, int, str]:
    return (-f.max_sequence_number, f.min_sequence_number, f.creation_time or 0, f.file_name)


def oldest_first(runs: Iterable[SortedRun]) -> list[SortedRun]:
    """Return runs by their highest sequence number: the order of versions if sequence ranges do not overlap."""
    return sorted(runs, key=lambda run: max(f.max_sequence_number for f in run.files))


def max_level(files: Iterable[DataFileMeta], num_levels: int) -> int:
    """Return the top level of a bucket; files that another writer put higher raise it."""
    return max([num_levels - 1, *(f.level for f in files)])


def highest_level(files: Iterable[DataFileMeta]) -> int:
    """Return the highest level that holds a file, or -1."""
    return max((f.level for f in files), default=-1)


def key_range(file: DataFileMeta, key_types: Sequence[DataType]) -> KeyRange:
    """Return the first and last key of a file as tuples that compare in key order."""
    return _comparable_key(file.min_key, key_types), _comparable_key(file.max_key, key_types)


def _comparable_key(key: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    return comparable(map(padded_value, decode_row(key, types), types))


def comparable(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return decoded key values as a tuple that compares in key order.

    NaN is the largest float, and equals itself; -0.0 comes before 0.0.
    """
    return tuple(_number(v) if isinstance(v, float) else v for v in values)


def _number(value: float) -> tuple[bool, float, float]:
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))


def sections(files: Iterable[DataFileMeta], key_types: Sequence[DataType]) -> list[list[SortedRun]]:
    """Group files into sections of overlapping key ranges, in key order.

    Ranges that share one key overlap. The files of a section form as few runs as possible; the level of such a run is
    that of its first file.
    """
    ranged = [(key_range(f, key_types), f) for f in files]
    ranged.sort(key=lambda item: item[0])
    out: list[list[SortedRun]] = []
    current: list[tuple[KeyRange, DataFileMeta]] = []
    bound: tuple[Any, ...] | None = None
    for keys, file in ranged:
        if bound is not None and keys[0] > bound:
            out.append(_fewest_runs(current))
            current, bound = [], None
        current.append((keys, file))
        bound = keys[1] if bound is None else max(bound, keys[1])
    if current:
        out.append(_fewest_runs(current))
    return out


def chained(parts: Sequence[Sequence[SortedRun]]) -> list[SortedRun]:
    """Return the runs of sections, which follow each other in key order, as few runs, oldest first."""
    ranked = [oldest_first(section) for section in parts]
    most = max((len(section) for section in parts), default=0)
    joined = ([section[-1 - i] for section in ranked if i < len(section)] for i in range(most))
    return oldest_first(SortedRun(runs[0].level, tuple(f for r in runs for f in r.files)) for runs in joined)


def _fewest_runs(ranged: Sequence[tuple[KeyRange, DataFileMeta]]) -> list[SortedRun]:
    heap: list[tuple[tuple[Any, ...], int, list[DataFileMeta]]] = []
    tie = count()
    runs: list[list[DataFileMeta]] = []
    for (low, high), file in ranged:
        if heap and heap[0][0] < low:
            run = heapq.heappop(heap)[2]
        else:
            run = []
            runs.append(run)
        run.append(file)
        heapq.heappush(heap, (high, next(tie), run))
    return [SortedRun(run[0].level, tuple(run)) for run in runs]

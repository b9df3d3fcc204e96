"""Compaction of append tables: which files to put together. Pure policy (semantics, section 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paimon_spark.spec.manifest import DataFileMeta

_FULL_MIN_FILES = 3
Files = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """Thresholds of append compaction, as the table options give them."""

    target_file_size: int
    open_file_cost: int = 4 << 20
    small_file_ratio: float = 0.7
    min_file_num: int = 5
    file_num_limit: int = 100_000
    delete_ratio_threshold: float = 0.2


def pick_unaware(
    files: Sequence[DataFileMeta], options: AppendOptions, deleted_rows: Callable[[DataFileMeta], int] = lambda _: 0
) -> list[Files]:
    """Return groups of files of one partition without buckets that are worth rewriting together."""
    limit = options.target_file_size * options.small_file_ratio
    small = [
        f
        for f in files
        if f.file_size < limit or deleted_rows(f) > options.delete_ratio_threshold * max(f.row_count, 1)
    ][: options.file_num_limit]
    groups: list[Files] = []
    current: list[DataFileMeta] = []
    weight = 0
    for f in sorted(small, key=lambda f: (f.file_size, f.file_name)):
        current.append(f)
        weight += f.file_size + options.open_file_cost
        if len(current) > 1 and weight >= 2 * options.target_file_size:
            groups.append(tuple(current))
            current, weight = [], 0
    if len(current) >= options.min_file_num:
        groups.append(tuple(current))
    return groups


def in_order(files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    """Return the files of an append bucket in the order of their rows."""
    return sorted(files, key=lambda f: (f.min_sequence_number, f.max_sequence_number, f.file_name))


def pick_bucketed(files: Sequence[DataFileMeta], options: AppendOptions) -> Files | None:
    """Return the next neighbouring files of an append bucket to rewrite, or None."""
    queue = in_order(files)
    window: list[DataFileMeta] = []
    total = 0
    for f in queue:
        window.append(f)
        total += f.file_size
        if len(window) >= options.min_file_num:
            return tuple(window)
        if total >= 2 * options.target_file_size:
            total -= window.pop(0).file_size
    return None


def pick_bucketed_full(files: Sequence[DataFileMeta], options: AppendOptions) -> Files | None:
    """Return the files that a requested full compaction of an append bucket rewrites, or None."""
    queue = in_order(files)
    while queue and queue[0].file_size >= options.target_file_size:
        queue.pop(0)
    small = sum(1 for f in queue if f.file_size < options.target_file_size)
    if len(queue) >= _FULL_MIN_FILES and small > len(queue) - small:
        return tuple(queue)
    return None

"""Compaction policy of append tables: which files to rewrite together (docs/spec/semantics.md, section 10)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from paimon_spark.core.metadata.deletion_vectors import VectorRef
from paimon_spark.spec.manifest import DataFileMeta

_FULL_MIN_FILES = 3
Files = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """Thresholds of append compaction, from the table options."""

    target_file_size: int
    open_file_cost: int = 4 << 20
    small_file_ratio: float = 0.7
    min_file_num: int = 5
    file_num_limit: int = 100_000
    delete_ratio_threshold: float = 0.2


Vectors = Mapping[str, VectorRef]
"""Deletion vectors of data files, by file name; a file without an entry has none."""


def pick_unaware(
    files: Sequence[DataFileMeta], options: AppendOptions, vectors: Vectors | None = None, *, full: bool = True
) -> list[Files]:
    """Return groups of files of one unbucketed partition that are worth rewriting together.

    Files with many deleted rows are rewritten regardless of their number. In a full compaction (`full`), small files
    with any deleted rows are rewritten too, together with the other small files. Files whose deletion vectors share an
    index file stay in one group, so that the index file is rewritten once.
    """
    vectors = vectors or {}
    limit, most = options.target_file_size * options.small_file_ratio, options.delete_ratio_threshold
    chosen = [f for f in files if f.file_size < limit or lost_many(f, vectors.get(f.file_name), most)]
    chosen = chosen[: options.file_num_limit]
    by_index: dict[str, list[DataFileMeta]] = {}
    whole: list[list[DataFileMeta]] = []
    for f in sorted(chosen, key=lambda f: (f.file_size, f.file_name)):
        ref = vectors.get(f.file_name)
        if ref is None or not (full or lost_many(f, ref, most)):
            whole.append([f])
        else:
            by_index.setdefault(ref.path, []).append(f)
    marked = sorted(by_index.values(), key=lambda group: sum(f.file_size for f in group))
    return _bins([*marked, *whole], options, {f.file_name for group in marked for f in group})


def lost_many(file: DataFileMeta, ref: VectorRef | None, threshold: float) -> bool:
    """Return whether more than `threshold` of the rows of a file are deleted, or their number is unknown."""
    if ref is None:
        return False
    return ref.cardinality is None or ref.cardinality > threshold * file.row_count


def _bins(items: Sequence[Sequence[DataFileMeta]], options: AppendOptions, marked: Collection[str]) -> list[Files]:
    """Pack items into groups of twice the target size; the last one needs enough files, or one of `marked`."""
    groups: list[Files] = []
    current: list[DataFileMeta] = []
    for item in items:
        current += item
        weight = sum(f.file_size + options.open_file_cost for f in current)
        if len(current) > 1 and weight >= 2 * options.target_file_size:
            groups.append(tuple(current))
            current = []
    if len(current) >= max(options.min_file_num, 2) or any(f.file_name in marked for f in current):
        groups.append(tuple(current))
    return groups


def in_order(files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    """Return the files of an append bucket in row order."""
    return sorted(files, key=lambda f: (f.min_sequence_number, f.max_sequence_number, f.file_name))


def pick_bucketed(files: Sequence[DataFileMeta], options: AppendOptions) -> Files | None:
    """Return the next consecutive files of an append bucket to rewrite, or None."""
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


def pick_bucketed_full(
    files: Sequence[DataFileMeta], options: AppendOptions, vectors: Vectors | None = None
) -> Files | None:
    """Return the files that a requested full compaction of an append bucket rewrites, or None."""
    marked = {f.file_name for f in files} & (vectors or {}).keys()
    queue = in_order(files)
    while queue and queue[0].file_size >= options.target_file_size and queue[0].file_name not in marked:
        queue.pop(0)
    if marked:
        return tuple(queue)
    small = sum(1 for f in queue if f.file_size < options.target_file_size)
    if len(queue) >= _FULL_MIN_FILES and small > len(queue) - small:
        return tuple(queue)
    return None

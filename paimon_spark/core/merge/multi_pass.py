"""Multi-pass merge: merging more sorted runs than may be open at once.

An open run costs memory regardless of its chunk size: pages, buffers and dictionaries of each column. If there are too
many runs, adjacent ones are first merged into spilled runs on the local disk, which cost one chunk each. The smallest
are merged first, so that large runs are read once. Only adjacent runs are merged: the order of runs breaks ties between
versions of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from paimon_spark.core.levels import SortedRun
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.merge.key_groups import KeyGroups
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_key_groups, merge_runs, merged_parts
from paimon_spark.core.spill.space import Run, SpillRules, SpillSpace, local_directories
from paimon_spark.core.table import Table
from paimon_spark.fs.base import PIECE_BYTES
from paimon_spark.spec.manifest import DataFileMeta

MERGE_BYTES = 10 << 20
"""Total size of the rows that the runs of a merge decode at a time."""
_OPEN_BYTES = 64 << 20
"""Memory limit for the open runs of a merge, besides the decoded rows."""
_FEWEST_OPEN = 4
_SPILL_BUFFER = 64 << 20
_UNPACKED = 3
_PAGE_ROWS = 20_000
_STRIPE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class RunSource:
    """A sorted run: its size in bytes, and a function that reads it in chunks of about a given size."""

    size: int
    read: Callable[[int], Iterator[pa.Table]]
    spilled: Run | None = None


def merge_sources(table: Table, sources: Sequence[RunSource], order: MergeOrder, at_once: int) -> Iterator[pa.Table]:
    """Merge sorted runs, at most `at_once` of them open at a time; yields tables like `merge_runs`.

    All runs are opened at once if the table does not allow spilling, or if the spill space is exhausted.
    """
    return merged_parts(group_sources(table, sources, order, at_once), order)


def group_sources(
    table: Table, sources: Sequence[RunSource], order: MergeOrder, at_once: int
) -> Iterator[KeyGroups | pa.Table]:
    """Yield the groups that `merge_sources` merges, like `merge_key_groups`."""
    rules = SpillRules.of(table.options, _SPILL_BUFFER) if len(sources) > at_once else None
    if rules is None:
        yield from merge_key_groups(_opened(sources), order)
        return
    space = SpillSpace(rules, local_directories())
    try:
        reduced = reduce_runs(sources, order, min(at_once, rules.fan_in), space)
        yield from merge_key_groups(_opened(reduced), order.after_partial())
    finally:
        space.close()


def _opened(sources: Sequence[RunSource]) -> list[Iterator[pa.Table]]:
    """Open sorted runs. A larger run gets larger chunks: the chunks of all runs should cover about the same keys."""
    equal = MERGE_BYTES // (2 * max(1, len(sources)))
    total = max(1, sum(s.size for s in sources))
    return [s.read(equal + MERGE_BYTES * s.size // (2 * total)) for s in sources]


def reduce_runs(sources: Sequence[RunSource], order: MergeOrder, at_once: int, space: SpillSpace) -> list[RunSource]:
    """Merge the smallest adjacent runs into spilled runs until at most `at_once` are left.

    More may be left if the spill space is exhausted.
    """
    left = list(sources)
    while len(left) > at_once:
        count = min(at_once, len(left) - at_once + 1)
        sizes = [sum(s.size for s in left[i : i + count]) for i in range(len(left) - count + 1)]
        start = sizes.index(min(sizes))
        few = left[start : start + count]
        run = space.write(merge_runs(_opened(few), order.partial()))
        if run is None:
            break
        space.drop(s.spilled for s in few if s.spilled is not None)
        left[start : start + count] = [replace(spilled_source(space, run), size=min(sizes))]
    return left


def spilled_source(space: SpillSpace, run: Run) -> RunSource:
    """Return a spilled run as a source."""
    return RunSource(run.size, partial(_read_spilled, space, run), run)


def _read_spilled(space: SpillSpace, run: Run, _: int) -> Iterator[pa.Table]:
    return space.read(run)


def runs_at_once(table: Table, section: Sequence[SortedRun], columns: int) -> int:
    """Return how many runs of a section may be open at once when `columns` of the table's columns are read."""
    stored = len(table.schema.fields) + len(table.key_fields) + len(SYSTEM_FIELDS)
    part = min(1.0, columns / stored)
    piece = table.file_io.preferred_read_bytes
    buffers = columns * piece if piece > PIECE_BYTES else 0
    cost = sum(buffers + part * max(_held_bytes(f) for f in run.files) for run in section)
    return len(section) if cost <= _OPEN_BYTES else max(_FEWEST_OPEN, int(len(section) * _OPEN_BYTES / cost))


def _held_bytes(file: DataFileMeta) -> float:
    """Return the approximate memory of a reader of all columns: one page of each column, or a whole stripe."""
    if file.file_name.endswith(".parquet"):
        return _UNPACKED * file.file_size * min(1.0, _PAGE_ROWS / max(1, file.row_count))
    return float(_UNPACKED * min(file.file_size, _STRIPE_BYTES))

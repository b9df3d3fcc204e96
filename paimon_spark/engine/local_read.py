"""Small reads in the engine process, without a job.

The size is estimated when a query is planned; the rows are read when it runs. A job costs tens of milliseconds, and its
Python workers the same again: more than reading a few megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import pyarrow as pa

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.read.read_cost import bytes_to_read
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.select import SelectPlan
from paimon_spark.fs.base import PIECE_BYTES
from paimon_spark.spec.predicate import TRUE

MOST_FILES = 64
"""Maximum number of files: each costs a few requests to an object store."""
_UNPACKED = 4
"""Estimated bytes in memory per byte of a data file."""
_PRUNED = 2
_SMALL_PART = 4
_CHANGED = 4 << 20
_ROW_BYTES = 8
"""Minimum size of a row in the JVM, even without columns."""
_MOST_ROWS = 200_000
"""Maximum number of rows without a filter: the JVM converts more rows slower than it starts a job.
"""
_REMOTE_THREADS = 8
_LOCAL_THREADS = 2
"""More of them contend for the interpreter: eight take as long, and half as much CPU time again."""
_WORTH_THREADS = 256 << 10

Batches = list[pa.RecordBatch]
_T = TypeVar("_T")
_R = TypeVar("_R")


def small_bytes(plans: Sequence[SelectPlan], *, changes: bool = False) -> int | None:
    """Return how many bytes of data files a small read takes at most; None if it is not small.

    A read for a statement that `changes` rows is small up to `_CHANGED` bytes: if it has more rows than this process
    writes, they are read again.

    A read is small if it takes no more bytes of files than the option allows; without a filter, of memory. If the sizes
    do not decide, files are opened to find the row groups that match the filter, and only these count. A small part of
    the files may take `_PRUNED` times as much, because the filter removes rows of these row groups too.
    """
    most_bytes = plans[0].table.options.local_read_bytes
    most_bytes = min(most_bytes, _CHANGED) if changes else most_bytes
    splits = [(plan, s) for plan in plans for s in plan.splits]
    if most_bytes <= 0 or sum(_files(s) for _, s in splits) > MOST_FILES:
        return None
    if sum(s.file_rows for p, s in splits if p.predicate == TRUE and p.limit is None) > _MOST_ROWS:
        return None
    stored = sum(s.size for _, s in splits)
    if sum(s.size if p.predicate != TRUE else s.size * _UNPACKED for p, s in splits) <= most_bytes:
        return stored
    most, needed = max(most_bytes, min(most_bytes * _PRUNED, stored // _SMALL_PART)), 0
    for plan, split in splits:
        if plan.predicate == TRUE:
            return None
        needed += bytes_to_read(plan.table, split, plan.columns, plan.predicate)
        if needed > most:
            return None
    return needed


def _files(split: Split) -> int:
    return split.file_count + len(split.postponed)


def read_small(plans: Sequence[SelectPlan]) -> Batches | None:
    """Return the rows of a read; None if they take more bytes in memory than the option allows in files."""
    splits = [(plan, s) for plan in plans for s in plan.splits]
    limit = plans[0].limit
    left, rows, out = plans[0].table.options.local_read_bytes, 0, Batches()
    for batches in _read(splits):
        for batch in batches:
            left -= max(batch.nbytes, _ROW_BYTES * batch.num_rows)
            rows += batch.num_rows
            out.append(batch)
        if left < 0:
            return None
        if limit is not None and rows >= limit:
            break
    return out


def _read(splits: Sequence[tuple[SelectPlan, Split]]) -> Iterator[Batches]:
    """Yield the rows of each split; several are read concurrently unless the first one may suffice."""
    if not splits or splits[0][0].limit is not None:
        yield from map(_rows, splits)
        return
    worth_threads = sum(s.size for _, s in splits) >= _WORTH_THREADS
    yield from concurrently(_rows, splits, splits[0][0].table, locally=_LOCAL_THREADS if worth_threads else 1)


def concurrently(read: Callable[[_T], _R], items: Sequence[_T], table: Table, *, locally: int) -> Iterator[_R]:
    """Yield the result of `read` for each item, in order; a few threads work ahead.

    Args:
        read: reads files of `table`.
        items: what to read.
        table: the table. Reads from an object store wait most of the time.
        locally: the number of threads if it is in a local file system; 1 for none.
    """
    remote = table.file_io.preferred_read_bytes > PIECE_BYTES
    threads = min(_REMOTE_THREADS if remote else locally, len(items))
    if threads <= 1:
        yield from map(read, items)
        return
    with ThreadPoolExecutor(threads, "paimon-read") as pool:
        jobs = [pool.submit(copy_context().run, read, item) for item in items]
        try:
            for job in jobs:
                yield job.result()
        finally:
            for job in jobs:
                job.cancel()


def _rows(what: tuple[SelectPlan, Split]) -> Batches:
    plan, split = what
    found = Batches()
    for batch in read_split(plan.table, split, plan.columns, plan.predicate):
        checkpoint()
        found.append(batch)
    return found

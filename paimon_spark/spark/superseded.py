"""The superseded rows that native scans leave out: cached, known without a job, or found when the query runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.core.bin_packing import group_tasks, task_cost
from paimon_spark.core.read.superseded_rows import (
    SUPERSEDED,
    bytes_of_keys,
    few_vectors,
    superseded_batch,
    superseded_rows,
)
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.local_read import MOST_FILES, concurrently
from paimon_spark.errors import EngineError
from paimon_spark.format.arrow_types import fields_from_arrow
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import finder, keyed_splits
from paimon_spark.spark.jvm_frames import superseded_rows_of, tasks_at_once, text_frame
from paimon_spark.spark.native_scan import superseded_rows_key
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.types import plain_struct

_KEYS = 2
"""How many times the bytes of a local read may be read to find superseded rows: no rows of them are sent to the JVM."""
_COLUMNS = StructType.fromJson(plain_struct(fields_from_arrow(SUPERSEDED)))


def superseded_of(session: SparkSession, request: ReadRequest, *, asks_engine: bool) -> Any:
    """Return the JVM's superseded rows of the splits of `request` that are read without them.

    Few vectors are read at once. The others are found when the query runs: by a job, or, if few bytes of keys decide,
    by the engine, which the JVM then asks for the batches of `superseded_in_engine`. It does so only if it
    `asks_engine`.
    """
    table = request.table
    by_name = _by_name(request)

    def known(missing: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        marked = [name for name in missing if by_name[name].raw]
        if not few_vectors([by_name[name] for name in marked]):
            return {}
        return {n: {path: b.serialize() for path, b in superseded_rows(table, by_name[n])} for n in marked}

    def find(missing: Sequence[str]) -> DataFrame | None:
        if asks_engine and _few_keys(table, [by_name[name] for name in missing]):
            return None
        tasks = group_tasks(missing, lambda name: split_cost(by_name[name]), tasks_at_once(session))
        lines = (keyed_splits((name, by_name[name]) for name in names) for names in tasks)
        return map_in_arrow(text_frame(session, lines), finder(table), _COLUMNS)

    return superseded_rows_of(list(by_name), known, find)


def superseded_in_engine(request: ReadRequest, missing: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Yield the superseded rows of splits of `request`, found by this process: a `superseded_batch` for each split.

    Args:
        request: what is read.
        missing: the keys of the splits, as of `superseded_rows_key`; at least one.

    Raises:
        EngineError: the request has no such split, because it was planned again with other options.
    """
    table, by_name = request.table, _by_name(request)
    if not by_name.keys() >= set(missing):
        raise EngineError(
            f"The read of table {table.name} was planned again, and its files are split in another way.",
            hint="Options were changed while the query ran. Run it again.",
        )
    wanted = [(name, by_name[name]) for name in missing]
    yield from concurrently(lambda one: superseded_batch(table, one[1], one[0]), wanted, table, locally=1)


def split_cost(split: Split) -> int:
    """Return the cost of reading a split, by which splits are grouped into tasks."""
    return task_cost(split.size, split.file_count)


def _by_name(request: ReadRequest) -> dict[str, Split]:
    return {superseded_rows_key(request.table, s): s for s in request.read_modes.filtered}


def _few_keys(table: Table, splits: Sequence[Split]) -> bool:
    """Return whether the engine finds the rows faster than a job: in few files, from few bytes.

    The vectors of splits that are not merged are left to a job: they are not few, see `superseded_of`.
    """
    if any(s.raw for s in splits) or sum(s.file_count for s in splits) > MOST_FILES:
        return False
    return sum(bytes_of_keys(table, s) for s in splits) <= _KEYS * table.options.local_read_bytes

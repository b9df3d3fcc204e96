"""Functions that run in Python on executors. Each is called by name with small JSON texts; no code is shipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from paimon_spark.core.arrow import row_at, with_offsets
from paimon_spark.core.columns import AUDIT_ROW_KIND, ROW_KIND
from paimon_spark.core.commit_message import CommitMessage, messages_to_json
from paimon_spark.core.compact.space_filling_curves import hilbert_keys, zorder_keys
from paimon_spark.core.read.postponed import split_rows
from paimon_spark.core.read.split_reader import first_rows, read_split
from paimon_spark.core.read.superseded_rows import superseded_batch
from paimon_spark.core.read.update_pairs import packed_pairs
from paimon_spark.core.scan.splits import Split, splits_from_json, splits_to_json
from paimon_spark.core.spill.space import local_directories
from paimon_spark.core.table import Table, table_of_task
from paimon_spark.core.write.bucket_router import BucketRouter
from paimon_spark.core.write.cross_partition import CrossPartitionWriter
from paimon_spark.core.write.local_merge import LocalMerger
from paimon_spark.core.write.row_conversion import WriteRules, partition_codes, prepare_batch
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.row_level import row_changer
from paimon_spark.engine.tasks import run_task
from paimon_spark.format.base import DEFAULT_BATCH_ROWS
from paimon_spark.spark.executor.task_watchdog import TaskWatchdog, watch_task
from paimon_spark.spark.executor.worker_reuse import prepare_reuse
from paimon_spark.spark.types import batch_for_spark, variant_types
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.predicate import Predicate, from_json
from paimon_spark.spec.rows import encode_row

Batches = Iterator[pa.RecordBatch]
_SMALL_BATCH = 1 << 20
_NEXT = "\t"
"""Separates JSON texts, which do not contain it."""


class RowForm(StrEnum):
    """The output of a read job: the columns alone, the kind and the columns, or the kind and the columns as arrays."""

    PLAIN = "plain"
    AUDIT_LOG = "audit_log"
    BINLOG = "binlog"


class TextList(AccumulatorParam[list[str]]):
    """Texts that tasks report even when the job fails later."""

    def zero(self, value: list[str]) -> list[str]:
        """Return no text."""
        return []

    def addInPlace(self, value1: list[str], value2: list[str]) -> list[str]:  # noqa: N802 - pyspark's name
        """Join two lists."""
        return value1 + value2


@contextmanager
def _task() -> Iterator[TaskWatchdog]:
    """Run as a task of a Spark worker: end with the task, and reduce the work before the next one.

    Spark closes the connection of a task once it has enough rows, as for a LIMIT; a broken pipe then ends the task
    normally.
    """
    with watch_task() as line:
        prepare_reuse()
        try:
            yield line
        except GeneratorExit:
            line.end_if_cut()
            raise


def _texts(batches: Batches) -> Iterator[str]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def unpacked(batches: Batches) -> Batches:
    """Yield the rows of packed Arrow streams; small batches are combined."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for packed in chain.from_iterable(batch.column(0) for batch in batches):
        stream = packed.as_buffer()
        waiting.extend(map(with_offsets, pa.ipc.open_stream(stream)))
        size += stream.size
        if size >= _SMALL_BATCH:
            yield from _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield from _joined(waiting)


def _few_batches(batches: Batches) -> Batches:
    """Combine small batches: sending a batch to the JVM costs as much as sending thousands of rows."""
    waiting: list[pa.RecordBatch] = []
    size, rows = 0, 0
    for batch in batches:
        waiting.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= _SMALL_BATCH or rows >= DEFAULT_BATCH_ROWS:
            yield from _joined(waiting)
            waiting, size, rows = [], 0, 0
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows as one batch, or as several if a column has more bytes than one array can hold."""
    if len(batches) == 1:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _written(
    task: TaskWatchdog,
    write: Callable[[pa.RecordBatch], None],
    batches: Batches,
    finish: Callable[[], Sequence[CommitMessage]],
) -> pa.RecordBatch:
    """Write the rows of one task and return its commit messages as one text."""
    for batch in unpacked(batches):
        write(batch)
    task.check()
    return pa.RecordBatch.from_pydict({"messages": pa.array([messages_to_json(finish())], pa.string())})


def write_rows(table: str, plan: str, batches: Batches, *, fill_defaults: bool = True) -> Batches:
    """Write the rows of one task and yield its commit messages as one text."""
    target, info = table_of_task(table), WriterRestoreState.from_json(plan)
    open_writer = partial(TableWriter, target, info, fill_defaults=fill_defaults, spill_dirs=local_directories())
    with _task() as task, open_writer() as writer:
        messages = _written(task, writer.write, batches, writer.finish)
    yield messages


def rewrite_rows(table: str, plan: str, batches: Batches) -> Batches:
    """Change the rows of one task in their files and yield its commit messages as one text."""
    target, info = table_of_task(table), WriterRestoreState.from_json(plan)
    with _task() as task, row_changer(target, info, local_directories()) as files:
        messages = _written(task, files.change, batches, files.finish)
    yield messages


def write_keyed_rows(table: str, plan: str, batches: Batches) -> Batches:
    """Write the rows of one task of a cross-partition upsert and yield its commit messages as one text."""
    target, info = table_of_task(table), WriterRestoreState.from_json(plan)
    open_writer = partial(CrossPartitionWriter, target, info, spill_dirs=local_directories())
    with _task() as task, open_writer() as writer:
        messages = _written(task, writer.write, batches, writer.finish)
    yield messages


def spread_rows(source: str, target: str, plan: str, tasks: int, batches: Batches) -> Batches:
    """Yield the rows of splits for the tasks that write their new buckets: task, position, packed rows.

    The splits come as texts of `keyed_splits`; their keys are their positions. Those of postponed files are replayed,
    all others are read.
    """
    table, info = table_of_task(source), WriterRestoreState.from_json(plan)
    router = BucketRouter(table_of_task(target), info.buckets_of, tasks)
    with _task():
        for text in chain.from_iterable(text.split(_NEXT) for text in _texts(batches)):
            number, _, encoded = text.partition(" ")
            for split in splits_from_json(encoded):
                for task, position, rows in router.route(split_rows(table, split, int(number))):
                    yield pa.RecordBatch.from_pydict(
                        {
                            "task": pa.array([task], pa.int32()),
                            "position": pa.array([position], pa.int64()),
                            "rows": pa.array([packed(rows)], pa.binary()),
                        }
                    )


def merge_rows_locally(table: str, batches: Batches) -> Batches:
    """Yield the rows of one task to write, with their kinds, those of a key merged; see `LocalMerger`."""
    target = table_of_task(table)
    variants = variant_types(target.schema.fields)
    with _task():
        merger = LocalMerger(target)
        for rows in chain(chain.from_iterable(map(merger.add, unpacked(batches))), merger.finish()):
            for batch in rows.combine_chunks().to_batches():
                yield batch_for_spark(batch, variants)


def count_rows(table: str, batches: Batches) -> Batches:
    """Yield each partition of the rows of one task, with the number of its rows and their bytes in memory."""
    target = table_of_task(table)
    fields = target.schema.partition_fields
    rules = replace(WriteRules.of(target), fields=fields, kind_column=None)
    found: dict[bytes, tuple[int, int]] = {}
    with _task():
        for batch in unpacked(batches):
            rows = prepare_batch(batch, rules).columns
            codes, firsts = partition_codes(rows, fields) if fields else (np.zeros(batch.num_rows, np.int64), [0])
            width = batch.nbytes // max(1, batch.num_rows)
            for first, n in zip(firsts, np.bincount(codes).tolist(), strict=True):
                partition = encode_row(row_at(rows, fields, first), target.partition_types)
                known = found.get(partition, (0, 0))
                found[partition] = known[0] + n, known[1] + n * width
    yield pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(found.keys(), pa.binary()),
            "rows": pa.array([n for n, _ in found.values()], pa.int64()),
            "bytes": pa.array([size for _, size in found.values()], pa.int64()),
        }
    )


def packed(rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream, as `unpacked` reads it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def add_curve(order: str, columns: tuple[str, ...], text_bytes: int, name: str, batches: Batches) -> Batches:
    """Yield the batches with the place of each row on a curve through `columns` as the last column, called `name`."""
    for batch in batches:
        through = [batch.column(c) for c in columns]
        keys = zorder_keys(through, text_bytes) if order == Order.ZORDER else hilbert_keys(through)
        yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, name])


def read_rows(
    table: str,
    columns: list[str],
    predicate: str | None,
    places: tuple[str, ...],
    batches: Batches,
    *,
    form: RowForm,
    limit: int | None,
) -> Batches:
    """Yield the rows of the splits that `batches` name, up to the limit.

    The column ``rowkind``, if the form has it, comes first; the metadata columns in `places` come last.
    """
    kinds = form is not RowForm.PLAIN
    source = table_of_task(table)
    condition: Predicate | None = from_json(predicate) if predicate is not None else None
    variants = variant_types(source.schema.fields)
    with _task():
        splits = (split for text in _texts(batches) for split in splits_from_json(text))

        def rows_of(split: Split) -> Batches:
            rows = read_split(source, split, columns, condition, keep_kinds=kinds, metadata_columns=places)
            found = (batch_for_spark(b, variants) for b in rows)
            return packed_pairs(found, pairs=split.unmerged, plain=places) if form is RowForm.BINLOG else found

        rows = chain.from_iterable(map(rows_of, splits))
        for batch in _few_batches(first_rows(rows, limit)):
            yield _kind_first(batch) if kinds else batch


def keyed_splits(splits: Iterable[tuple[str, Split]]) -> str:
    """Return splits and their keys as one text for a task of `finder`."""
    return _NEXT.join(f"{key} {splits_to_json([split])}" for key, split in splits)


def find_superseded_rows(table: str, batches: Batches) -> Batches:
    """Yield a `superseded_batch` for each of the splits of `batches`; see `keyed_splits`."""
    source = table_of_task(table)
    with _task():
        for text in chain.from_iterable(text.split(_NEXT) for text in _texts(batches)):
            key, _, split = text.partition(" ")
            for one in splits_from_json(split):
                yield superseded_batch(source, one, key)


def _kind_first(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.array(["+I", "-U", "+U", "-D"]).take(batch.column(ROW_KIND))
    names = [n for n in batch.schema.names if n != ROW_KIND]
    return pa.RecordBatch.from_arrays([kinds, *(batch.column(n) for n in names)], names=[AUDIT_ROW_KIND, *names])


def run_tasks(kind: str, done: Any, batches: Batches) -> Batches:
    """Run the numbered engine tasks in `batches`, and yield a numbered result for each."""
    for text in _texts(batches):
        number, _, payload = text.partition(" ")
        with _task():
            answer = f"{number} {run_task(kind, payload)}"
        done.add([answer])
        yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.string())})


def writer(table: Table, plan: WriterRestoreState) -> Any:
    """Return the function of a write job."""
    return partial(write_rows, table.to_config(), plan.to_json())


def rewriter(table: Table, plan: WriterRestoreState) -> Any:
    """Return the function of a job that rewrites rows of the table, without filling in defaults."""
    return partial(write_rows, table.to_config(), plan.to_json(), fill_defaults=False)


def keyed_writer(table: Table, plan: WriterRestoreState) -> Any:
    """Return the function of the write job of a cross-partition upsert."""
    return partial(write_keyed_rows, table.to_config(), plan.to_json())


def local_merger(table: Table) -> Any:
    """Return the function of a job that merges rows before they are shuffled."""
    return partial(merge_rows_locally, table.to_config())


def counter(table: Table) -> Any:
    """Return the function of a job that counts the rows of each partition."""
    return partial(count_rows, table.to_config())


def spreader(source: Table, target: Table, plan: WriterRestoreState, tasks: int) -> Any:
    """Return the function of a job that reads rows for the tasks that write their new buckets."""
    return partial(spread_rows, source.to_config(), target.to_config(), plan.to_json(), tasks)


def copy_on_write_rewriter(table: Table, plan: WriterRestoreState) -> Any:
    """Return the function of a job that changes rows in their files."""
    return partial(rewrite_rows, table.to_config(), plan.to_json())


def reader(
    table: Table,
    columns: list[str],
    predicate: str | None,
    *,
    places: tuple[str, ...] = (),
    form: RowForm = RowForm.PLAIN,
    limit: int | None = None,
) -> Any:
    """Return the function of a read job; see `read_rows`."""
    return partial(read_rows, table.to_config(), columns, predicate, places, form=form, limit=limit)


def finder(table: Table) -> Any:
    """Return the function of a job that finds superseded rows; its output columns are those of `SUPERSEDED`."""
    return partial(find_superseded_rows, table.to_config())


COUNTED = "partition binary, rows bigint, bytes bigint"
"""The output columns of `counter`."""
SPREAD = "task int, position bigint, rows binary"
"""The output columns of `spreader`."""

"""A planned read as a frame: native scans for files that need no merge, Arrow workers for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from paimon_spark.core.bin_packing import SMALL_TASK_WORK, group_tasks
from paimon_spark.core.columns import AUDIT_ROW_KIND, PARTITION
from paimon_spark.core.scan.splits import Split, splits_to_json
from paimon_spark.spark.arrow_map import read_in_arrow
from paimon_spark.spark.executor.worker import RowForm, reader
from paimon_spark.spark.jvm_frames import (
    bucket_frame,
    empty_frame,
    native_frame,
    tasks_at_once,
    text_frame,
)
from paimon_spark.spark.native_access import native_access
from paimon_spark.spark.native_columns import NativeFiles
from paimon_spark.spark.native_scan import native_spec
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.superseded import split_cost, superseded_of
from paimon_spark.spark.types import plain_struct
from paimon_spark.spec.predicate import TRUE, to_json
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.types import ArrayType

_BUCKET = attrgetter("bucket")


def read_frame(
    session: SparkSession, request: ReadRequest, *, by_bucket: bool = False, asks_engine: bool = False
) -> DataFrame:
    """Return the rows of `request` as a frame without any shuffle. Additional columns may be included.

    Args:
        session: the session of the statement.
        request: what is read.
        by_bucket: whether the JVM needs the buckets of the files, to group tasks by bucket.
        asks_engine: whether the JVM will ask for the `superseded_in_engine` of the request when the query runs.
    """
    read_modes = request.read_modes
    frames = [_native(session, request, files, by_bucket=by_bucket) for files in read_modes.native_files]
    if read_modes.filtered:
        superseded = superseded_of(session, request, asks_engine=asks_engine)
        frames += [
            _native(session, request, files, superseded, by_bucket=by_bucket) for files in read_modes.filtered_files
        ]
    if read_modes.workers or read_modes.small:
        frames.append(_by_workers(session, request, by_bucket=by_bucket))
    rows = reduce(DataFrame.unionAll, frames) if frames else empty_frame(session, _row_type(request))
    if PARTITION not in request.metadata:
        return rows
    return rows.withColumn(PARTITION, f.struct(*[f.col(quoted_name(k)) for k in request.table.schema.partition_keys]))


def _by_workers(session: SparkSession, request: ReadRequest, *, by_bucket: bool) -> DataFrame:
    slots = tasks_at_once(session)
    tasks = chain(
        group_tasks(request.read_modes.workers, split_cost, slots),
        group_tasks(request.read_modes.small, split_cost, slots, SMALL_TASK_WORK),
    )
    splits = bucket_frame(session, _by_bucket(tasks)) if by_bucket else text_frame(session, map(splits_to_json, tasks))
    predicate = None if request.predicate == TRUE else to_json(request.predicate)
    names = [f.name for f in request.read_columns]
    places = tuple(p.name for p in request.places)
    form = RowForm.BINLOG if request.pairs else RowForm.AUDIT_LOG if request.keep_kinds else RowForm.PLAIN
    run = reader(request.table, names, predicate, places=places, form=form, limit=request.limit)
    return read_in_arrow(splits, run, _row_type(request))


def _by_bucket(tasks: Iterable[list[Split]]) -> Iterator[tuple[int, int, str]]:
    for number, splits in enumerate(tasks):
        for bucket, found in groupby(sorted(splits, key=_BUCKET), _BUCKET):
            yield number, bucket, splits_to_json(found)


def _native(
    session: SparkSession,
    request: ReadRequest,
    files: NativeFiles,
    superseded: Any | None = None,
    *,
    by_bucket: bool,
) -> DataFrame:
    spec, groups = native_spec(request, files, filtered=superseded is not None, by_bucket=by_bucket)
    return native_frame(session, spec, groups, native_access(request.table).conf, superseded)


def _row_type(request: ReadRequest) -> StructType:
    columns = list(request.read_columns)
    if request.pairs:
        columns = [replace(f, type=ArrayType(replace(f.type, nullable=True))) for f in columns]
    struct = plain_struct((*columns, *request.places))
    if request.keep_kinds:
        kind = {"name": AUDIT_ROW_KIND, "type": "string", "nullable": True, "metadata": {}}
        struct = {"type": "struct", "fields": [kind, *struct["fields"]]}
    return StructType.fromJson(struct)

"""Clustering of more rows than one process should sort: one range shuffle by the order, as in sorting compaction.

(docs/spec/semantics.md, A6)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from paimon_spark.core.bin_packing import bin_packed
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.clustering import table_clustering
from paimon_spark.core.compact.rewrite import replaced_message
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Sorting
from paimon_spark.engine.insert import plan_write
from paimon_spark.engine.redistribution.sort_compact import Sorter, SortPlan, sort_ranges
from paimon_spark.errors import EngineError
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DataFileMeta


def cluster_sorting(sorter: Sorter | None) -> Sorting | None:
    """Return how large tasks of a clustered table are run: by jobs of `sorter`, if there is one."""
    return None if sorter is None else partial(sort_tasks, sorter)


def sort_tasks(sorter: Sorter, table: Table, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    """Sort the rows of tasks of different partitions in one job; nothing is committed.

    Raises:
        PaimonError: the job failed; the new files are deleted.
    """
    clustering = table_clustering(table)
    plan = SortPlan(
        write=plan_write(table),
        order=clustering.order,
        columns=clustering.columns,
        snapshot_id=None,
        entries=(),
        splits=tuple(split for task in tasks for split in _splits(table, task)),
        ranges=sort_ranges(table, (t.bytes_in for t in tasks)),
    )
    messages = [replaced_message(table, task, ()) for task in tasks]
    written: dict[bytes, list[DataFileMeta]] = {}
    for message in sorter.rewrite_sorted(plan):
        written.setdefault(message.partition, []).extend(message.new_files)
    done = [
        replace(message, compact_after=_upgraded(written.pop(task.partition, ()), task.output_level))
        for message, task in zip(messages, tasks, strict=True)
    ]
    if written:
        raise EngineError(
            f"The sorted rows of table {table.name} are in other partitions than before; they are not committed.",
            hint="Report this. CALL sys.remove_orphan_files removes the new files.",
        )
    return done


def _splits(table: Table, task: CompactTask) -> Iterator[Split]:
    options, vectors = table.options, dict(task.vectors)
    target, cost = options.source_split_target_size, options.source_split_open_file_cost
    for files in bin_packed(task.files, attrgetter("file_size"), target, cost):
        refs = tuple(vectors.get(f.file_name) for f in files)
        yield Split(
            partition=task.partition,
            bucket=task.bucket,
            total_buckets=task.total_buckets,
            files=tuple(files),
            raw=True,
            snapshot_id=0,
            vectors=refs if any(refs) else (),
        )


def _upgraded(files: Sequence[DataFileMeta], level: int) -> tuple[DataFileMeta, ...]:
    return tuple(replace(f, level=level, file_source=FileSource.COMPACT) for f in files)

"""Sort compaction: rewrites the files of whole partitions in a sort order, so that each file covers a narrow range.

Rows are not changed. Exactly the files that were read are replaced, in one OVERWRITE snapshot; files that other writers
add meanwhile are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.deletion_vectors import StoredVectors
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import CompactionResult, GroupResult
from paimon_spark.engine.compaction.compact_explain import REWRITE
from paimon_spark.engine.insert import WritePlan, plan_write
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import DataFileKey, ManifestEntry
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.types import (
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    beyond_micros,
    children,
    is_ordered,
)

_MIN_SAMPLE = 20
_DIGITS = 6
_PROPERTIES = {"paimon-spark.procedure": "compact"}
"""Snapshot properties that distinguish it from an OVERWRITE snapshot that changes rows."""


@dataclass(frozen=True, slots=True)
class SortPlan:
    """The files to rewrite and the sort order. `ranges` is the number of ranges of the order to create."""

    write: WritePlan
    order: Order
    columns: tuple[str, ...]
    snapshot_id: int | None
    entries: tuple[ManifestEntry, ...]
    splits: tuple[Split, ...]
    ranges: int

    @property
    def table(self) -> Table:
        """Return the table."""
        return self.write.table

    @property
    def partitions_seen(self) -> frozenset[bytes]:
        """Return the partitions that the filter matches."""
        return frozenset(e.partition for e in self.entries)


class Sorter(Protocol):
    """Sorts rows with more than one process."""

    def rewrite_sorted(self, plan: SortPlan) -> list[CommitMessage]:
        """Write the rows of the plan's files into new files, sorted; nothing is committed."""


def plan_sort(table: Table, order: Order, columns: Sequence[str], partitions: Predicate | None) -> SortPlan:
    """Return the plan with the files of the latest snapshot to rewrite.

    Raises:
        UnsupportedError: the table cannot be sorted, a column has no order, or one would lose digits.
        ArgumentError: an option has an invalid value.
    """
    _check_table(table)
    _check_digits(table)
    names = tuple(_sortable(table.schema.field(c), order) for c in columns)
    magnification = table.options.number("sort-compaction.local-sample.magnification")
    if magnification < _MIN_SAMPLE:
        raise ArgumentError(
            f"The option 'sort-compaction.local-sample.magnification' is {magnification}, which is too small to find "
            "even ranges.",
            hint=f"Give {_MIN_SAMPLE} or more.",
        )
    write = plan_write(table)
    snapshot = table.snapshots.latest()
    found = scan(table, snapshot, partition_predicate=partitions or TRUE)
    splits = tuple(plan_splits(table, found))
    snapshot_id = snapshot.id if snapshot else None
    sizes: dict[bytes, int] = {}
    for e in found.entries:
        sizes[e.partition] = sizes.get(e.partition, 0) + e.file.file_size
    return SortPlan(write, order, names, snapshot_id, found.entries, splits, sort_ranges(table, sizes.values()))


def _check_table(table: Table) -> None:
    if tracks_rows(table):
        raise UnsupportedError(
            f"Table {table.name} has 'row-tracking.enabled' = 'true'; its rows cannot be sorted.",
            hint="Call compact without order_strategy: the rows keep their ids.",
        )
    if table.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return
    what = "has a primary key" if table.is_primary_key_table else f"has {table.options.bucket} buckets"
    raise UnsupportedError(
        f"Table {table.name} {what}; only tables without primary key and with 'bucket' = '-1' can be sorted.",
        hint="Call compact without order_strategy.",
    )


def _check_digits(table: Table) -> None:
    """Reject columns that lose digits in the job that sorts, whose timestamps have microseconds."""
    cut = [f.name for f in table.schema.fields if beyond_micros(f.type)]
    if cut:
        raise UnsupportedError(
            f"The rows of table {table.name} cannot be sorted: its column '{cut[0]}' has timestamps of more than "
            f"{_DIGITS} digits of a second, of which sorting would keep only {_DIGITS}.",
            hint="Call compact without order_strategy: it keeps all digits.",
        )


def _sortable(field: DataField, order: Order) -> str:
    nested = not isinstance(field.type, AtomicType)
    if not _has_order(field.type) or (nested and order is not Order.ORDER):
        raise UnsupportedError(
            f"The column '{field.name}' has a type that order_strategy '{order}' cannot sort by.",
            hint="Sort by columns of plain types.",
        )
    return field.name


def _has_order(t: DataType) -> bool:
    if isinstance(t, AtomicType):
        return is_ordered(t)
    return not isinstance(t, MapType | MultisetType) and all(_has_order(c) for c in children(t))


def sort_ranges(table: Table, sizes: Iterable[int]) -> int:
    """Return the configured number of tasks of a sort, or the expected number of full-size files.

    Args:
        table: the table.
        sizes: the bytes to rewrite in each partition.
    """
    wanted = table.options.number_or_none("sink.parallelism")
    if wanted is not None:
        return max(wanted, 1)
    target = table.options.target_file_size(primary_key=False)
    return max(1, sum(-(-size // target) for size in sizes))


def sort_actions(plan: SortPlan) -> Iterator[Action]:
    """Yield one action per file that the plan rewrites."""
    table = plan.table
    by = f"sorted by {', '.join(plan.columns)} ({plan.order}) in {plan.ranges} range{'s' if plan.ranges > 1 else ''}"
    for entry in plan.entries:
        where = table.partition_text(entry.partition).rstrip("/") if table.schema.partition_keys else "the table"
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        yield Action(REWRITE, path, entry.file.file_size, f"{where}: {by}")


def execute_sort(plan: SortPlan, sorter: Sorter) -> CompactionResult:
    """Rewrite the files of the plan and commit; no snapshot is created if there is nothing to rewrite.

    Raises:
        ConflictError: another commit replaced one of the files; this operation has changed nothing.
    """
    if not plan.entries:
        return CompactionResult(snapshot_before=plan.snapshot_id)
    replaced = list(replaced_files(plan.table, plan.entries, plan.splits))
    messages = sorter.rewrite_sorted(plan)
    commit = FileStoreCommit(plan.table)
    with commit.or_abort(messages):
        committed = commit.commit([*messages, *replaced], CommitMetadata(properties=_PROPERTIES))
    before, after = [e.file for e in plan.entries], [f for m in messages for f in m.new_files]
    group = GroupResult.of(committed, len({e.partition for e in plan.entries}), before, after)
    return CompactionResult(snapshot_before=plan.snapshot_id, groups=(group,), snapshot_ids=group.snapshot_ids)


def replaced_files(table: Table, entries: Iterable[ManifestEntry], splits: Iterable[Split]) -> Iterator[CommitMessage]:
    """Yield messages that remove files whose rows, as far as they are not deleted, were read from `splits`."""
    vectors = StoredVectors(table.file_io)
    refs = {
        DataFileKey(s.partition, s.bucket, f.file_name): s.vector_of(i) for s in splits for i, f in enumerate(s.files)
    }
    for entry in entries:
        name = entry.file.file_name
        ref = refs.get(DataFileKey(entry.partition, entry.bucket, name))
        yield CommitMessage(
            partition=entry.partition,
            bucket=entry.bucket,
            total_buckets=entry.total_buckets,
            deleted_files=(entry.file,),
            vectors_seen=((name, vectors.fingerprint(name, ref)),),
        )

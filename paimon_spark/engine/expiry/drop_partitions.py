"""Dropping of partitions by one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.core.commit.change_set import Change, overwrite_part
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.snapshot import Snapshot

DROP = "drop partition"


@dataclass(frozen=True, slots=True)
class DropPartitionsPlan:
    """The partitions to drop, in serialized form, and their sizes.

    Attributes:
        table: the table.
        partitions: the partitions.
        missing: the filters that match no partition.
        actions: one action a partition, and a warning for each filter that matches none.
        files: number of data files of the partitions.
        bytes: size of the files.
    """

    table: Table
    partitions: frozenset[bytes]
    missing: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    files: int = 0
    bytes: int = 0


@translate_io_errors()
def plan_drop_partitions(table: Table, asked: Sequence[tuple[str, Predicate]]) -> DropPartitionsPlan:
    """Plan the drop of the partitions that one of the filters matches; nothing is changed.

    Args:
        table: the table.
        asked: filters over the partition columns, each with its text.
    """
    check_writable(table.effective_schema)
    live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    known = {e.partition for e in live}
    chosen: set[bytes] = set()
    missing: list[str] = []
    for text, predicate in asked:
        found = matching_partitions(table, known, predicate)
        chosen |= found
        if not found:
            missing.append(text)
    going: dict[bytes, list[DataFileMeta]] = {}
    for entry in live:
        if entry.partition in chosen:
            going.setdefault(entry.partition, []).append(entry.file)
    actions = [Action(WARN, text, 0, f"table {table.name} has no partition {text}") for text in missing]
    for partition in sorted(chosen, key=table.partition_text):
        files = going[partition]
        size, rows = sum(f.file_size for f in files), sum(f.row_count for f in files)
        actions.append(Action(DROP, table.partition_text(partition), size, f"{len(files)} files with {rows} rows"))
    return DropPartitionsPlan(
        table,
        frozenset(chosen),
        tuple(missing),
        tuple(actions),
        sum(map(len, going.values())),
        sum(f.file_size for files in going.values() for f in files),
    )


@translate_io_errors()
def execute_drop_partitions(plan: DropPartitionsPlan) -> int | None:
    """Drop the partitions in their state at the commit; return the snapshot, None if nothing was left."""

    def change(store: ManifestStore, base: Snapshot | None) -> Change:
        live = live_in_partitions(store, base, plan.partitions)
        index = [i for i in store.index_entries(base) if i.partition in plan.partitions]
        return overwrite_part((), [e for e in live if e.partition in plan.partitions], index)

    if not plan.partitions:
        return None
    metadata = CommitMetadata(operation=Operation.TRUNCATE)
    done = FileStoreCommit(plan.table).commit_plan(change, CommitKind.OVERWRITE, metadata)
    return done.snapshot_ids[-1] if isinstance(done, Committed) else None

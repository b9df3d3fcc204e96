"""Commits: from messages to published snapshots.

The writes of the messages become one snapshot, their compactions a second one. `commit_retry` races for each of them,
`snapshot_builder` writes its manifests.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from paimon_spark.core.commit.chain_guard import ChainGuard
from paimon_spark.core.commit.change_set import Change, append_part, compact_part, overwrite_part, promote_to_top
from paimon_spark.core.commit.commit_retry import Planner, SnapshotPublisher
from paimon_spark.core.commit.conflict_check import (
    check_hash_index,
    check_indexed_rows,
    check_same_buckets,
    check_same_keys,
    check_same_rows,
    check_whole_partitions,
)
from paimon_spark.core.commit.row_range_check import (
    check_row_ranges,
    check_same_columns,
    with_index_action,
    without_moved_indexes,
)
from paimon_spark.core.commit.snapshot_builder import CommitMetadata, SnapshotBuilder
from paimon_spark.core.commit.strict_mode import StrictMode
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.global_indexes import GlobalIndexTask
from paimon_spark.core.maintenance.empty_directories import remove_directories_of_dropped
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, OutcomeUnknownError, PaimonError
from paimon_spark.spec.kinds import BucketMode, CommitKind, Operation
from paimon_spark.spec.predicate import AlwaysTrue, Predicate
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataField

BATCH_COMMIT = CommitMetadata()
"""The metadata of a batch job's commit by default."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Snapshots were published: one, or an APPEND followed by a COMPACT."""

    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmptyCommit:
    """There was nothing to commit; the table is unchanged."""


CommitResult = Committed | EmptyCommit


@dataclass(slots=True)
class FileStoreCommit:
    """Commits to one table as one user. Not thread-safe.

    Args:
        table: the table.
        commit_user: stable for a streaming job, so that repeated identifiers are recognized; random otherwise.
        clock: epoch seconds.
        sleep: waits between attempts.
        since: the newest snapshot when a streaming job found that its commit was missing; a commit of the same user and
            identifier above it is this commit, made by another process of the job.
        alone: returns whether no other process of the job can have made the commit; asked if snapshots above `since`
            have expired.
    """

    table: Table
    commit_user: str | None = None
    clock: Callable[[], float] = field(default=time.time, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    since: int | None = None
    alone: Callable[[], bool] | None = field(default=None, repr=False)
    _published: set[str] = field(default_factory=set, repr=False)
    _strict: StrictMode | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check that the user of the catalog may write; generate a commit user unless one is given."""
        self.table.require(Privilege.INSERT)
        continued = self.commit_user is not None
        if self.commit_user is None:
            self.commit_user = new_commit_user(self.table)
        self._strict = StrictMode.of(self.table, self.commit_user, continued=continued)

    @translate_io_errors()
    def commit(
        self,
        messages: Iterable[CommitMessage],
        metadata: CommitMetadata = BATCH_COMMIT,
        *,
        ignore_empty: bool = True,
        hash_files: Mapping[bytes, Mapping[int, str]] | None = None,
        keys_of: int | None = None,
        whole_partitions: bool = False,
        rows_of: int | None = None,
        buckets_of: int | None = None,
    ) -> CommitResult:
        """Publish the changes of writers and compactors: the writes first, then the compactions.

        Args:
            messages: the changes.
            metadata: properties of the commit that the snapshots record.
            ignore_empty: publish nothing if there are no changes.
            hash_files: the hash index files by which the writers chose dynamic buckets, by partition and bucket; they
                must still be current in the partitions that the writes change.
            keys_of: the snapshot whose keys the writers looked up; only compactions may be committed after it.
            whole_partitions: the removed files must be all files of the partitions that the writes change.
            rows_of: the snapshot whose sequence numbers the compactions continue; no rows may be written to buckets of
                their partitions after it.
            buckets_of: the snapshot whose rows the removed files hold; no rows may be written to their buckets after
                it.

        Raises:
            ConflictError: files that the messages replace are gone, or every attempt lost the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
        """
        items = list(messages)
        ids: tuple[int, ...] = ()
        written, compacted = append_part(items), compact_part(items)
        if not written.is_empty or (compacted.is_empty and not ignore_empty):
            plan = _fixed(written) if hash_files is None else _on_hash_index(written, hash_files)
            if keys_of is not None:
                plan = _on_keys(written, keys_of)
            elif whole_partitions:
                plan = _of_whole_partitions(written)
            if buckets_of is not None:
                plan = _on_buckets(plan, buckets_of)
            ids = (self._publish(plan, written.kind, metadata),)
            self._published |= _file_names(written)
        return self._and_compaction(ids, compacted, metadata, rows_of)

    @translate_io_errors()
    def commit_columns(
        self, messages: Iterable[CommitMessage], metadata: CommitMetadata, snapshot_id: int
    ) -> CommitResult:
        """Publish the changes of writers to a table with data evolution, some of whose files hold columns of its rows.

        Args:
            messages: the changes.
            metadata: properties of the commit that the snapshot records.
            snapshot_id: the snapshot that the rows were read from; the same columns of them must not change after it.

        Raises:
            ConflictError: another commit changed or rewrote the rows, or every attempt lost the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
            UnsupportedError: a changed column has a global index, which the options do not drop.
        """
        written = append_part(messages)
        if written.is_empty:
            return EmptyCommit()
        return Committed((self._publish(_on_columns(written, snapshot_id), written.kind, metadata),))

    @translate_io_errors()
    def overwrite(
        self,
        messages: Iterable[CommitMessage],
        metadata: CommitMetadata = BATCH_COMMIT,
        *,
        partitions: Predicate | None = None,
        dynamic: bool = False,
        ignore_empty: bool = True,
    ) -> CommitResult:
        """Replace the content of partitions, in their state at the commit, by new files.

        Args:
            messages: the new files; none empties the partitions.
            metadata: properties of the commit that the snapshots record.
            partitions: filter over the partition columns; None means the whole table.
            dynamic: replace just the partitions that the messages write to; none, if they write nothing.
            ignore_empty: publish nothing if no file is removed or added.

        Raises:
            ArgumentError: a message writes outside `partitions`.
            ConflictError: every attempt lost the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
        """
        items = promote_to_top(self.table, messages)
        written = {m.partition for m in items if m.new_files}
        self._check_inside(written, partitions)
        by_messages = dynamic and bool(self.table.schema.partition_keys)
        if by_messages and not written:
            return EmptyCommit()
        plan = _replacement(self.table, items, written if by_messages else None, partitions)
        ids: tuple[int, ...] = ()
        store = ManifestStore(self.table)
        if not ignore_empty or not plan(store, self.table.snapshots.latest()).is_empty:
            guard = ChainGuard.of(self.table)
            planner = plan if guard is None else guard.planner(plan)
            ids = (self._publish(planner, CommitKind.OVERWRITE, metadata),)
            self._published |= _file_names(overwrite_part(items, (), ()))
            self._drop_outdated(guard)
        return self._and_compaction(ids, compact_part(items), metadata)

    @translate_io_errors()
    def commit_plan(self, plan: Planner, kind: CommitKind, metadata: CommitMetadata = BATCH_COMMIT) -> CommitResult:
        """Publish a change that is computed from the latest snapshot in every attempt; nothing if it is empty.

        Args:
            plan: returns the change.
            kind: kind of the snapshot.
            metadata: properties of the commit that the snapshot records.

        Raises:
            ConflictError: the change conflicts with the table, or every attempt lost the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
        """
        if plan(ManifestStore(self.table), self.table.snapshots.latest()).is_empty:
            return EmptyCommit()
        guard = ChainGuard.of(self.table) if kind is CommitKind.OVERWRITE else None
        found = Committed((self._publish(plan if guard is None else guard.planner(plan), kind, metadata),))
        self._drop_outdated(guard)
        return found

    def commit_global_index(
        self, messages: Iterable[CommitMessage], column: DataField, tasks: Sequence[GlobalIndexTask]
    ) -> CommitResult:
        """Publish the files of a global index.

        Args:
            messages: the index files.
            column: the indexed column.
            tasks: the indexed rows, whose values of the column must still be in the same files.

        Raises:
            ConflictError: other commits moved, removed or indexed rows, or changed the column, or every attempt lost
                the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
        """
        change = append_part(messages)
        return self.commit_plan(_on_indexed_rows(change, column, tasks), change.kind)

    def abort(self, messages: Iterable[CommitMessage]) -> None:
        """Delete the files of uncommitted messages.

        Files that this committer published before (the writes of a commit whose compactions failed) are kept. Must not
        be called after an OutcomeUnknownError.
        """
        paths = self.table.paths
        left: list[str] = []
        for m in messages:
            before = (*m.compact_before, *m.deleted_files)
            kept = self._published | {name for f in before for name in (f.file_name, *f.extra_files)}
            brought = (*m.new_files, *m.new_changelog, *m.compact_after, *m.compact_changelog)
            found = (path for f in brought for path in paths.file_paths(m.partition, m.bucket, f))
            left += (path for path in found if path.rpartition("/")[2] not in kept)
            indexes = (i for i in m.new_index_files if i.file_name not in kept)
            left += (paths.index_file(m.partition, m.bucket, i) for i in indexes)
        delete_best_effort(self.table.file_io, left)
        remove_directories_of_dropped(self.table, left)

    @contextmanager
    def or_abort(self, messages: Iterable[CommitMessage]) -> Iterator[None]:
        """Delete the files of `messages` if their commit in the block certainly failed."""
        try:
            yield
        except OutcomeUnknownError:
            raise
        except PaimonError:
            self.abort(messages)
            raise

    def _check_inside(self, written: set[bytes], partitions: Predicate | None) -> None:
        if partitions is None or isinstance(partitions, AlwaysTrue):
            return
        outside = written - matching_partitions(self.table, written, partitions)
        if outside:
            raise ArgumentError(
                f"The new rows belong to the partition '{self.table.partition_text(min(outside))}', which the "
                "statement does not overwrite.",
                hint="Write only rows of the partitions named in the statement.",
            )

    def _and_compaction(
        self, ids: tuple[int, ...], compacted: Change, metadata: CommitMetadata, rows_of: int | None = None
    ) -> CommitResult:
        """Publish a compaction, if there is one; return it and the snapshots published before it."""
        if not compacted.is_empty:
            plan = _fixed(compacted) if rows_of is None else _on_rows(compacted, rows_of)
            if evolves(self.table):
                plan = _on_row_ranges(plan)
            ids = (*ids, self._publish(plan, compacted.kind, metadata))
        return Committed(ids) if ids else EmptyCommit()

    def _drop_outdated(self, guard: ChainGuard | None) -> None:
        """Drop the partitions of another branch that the published overwrite made out of date."""
        following = None if guard is None else guard.after()
        if following is None:
            return
        table, plan = following
        metadata = CommitMetadata(operation=Operation.TRUNCATE)
        commit = FileStoreCommit(table, clock=self.clock, sleep=self.sleep)
        commit._strict = None  # the option names a snapshot of the branch that the statement writes
        commit.commit_plan(plan, CommitKind.OVERWRITE, metadata)

    def _publish(self, plan: Planner, kind: CommitKind, metadata: CommitMetadata) -> int:
        """Publish one snapshot; return its id."""
        builder = SnapshotBuilder(self.table, str(self.commit_user), metadata, self.clock, self._strict)
        published = SnapshotPublisher(builder, plan, kind, self.sleep, self.since, self.alone).publish()
        if self._strict is not None:
            self._strict.safe = published
        return published


def new_commit_user(table: Table) -> str:
    """Return a random commit user, whose prefix is an option of the table."""
    prefix = table.options.commit_user_prefix
    return f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())


def _fixed(change: Change) -> Planner:
    """Return the planner of a change that does not depend on the base."""
    return lambda _store, _base: change


def _on_hash_index(change: Change, hash_files: Mapping[bytes, Mapping[int, str]]) -> Planner:
    """Return the planner of a change that is valid only while the hash index files are the given ones."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_hash_index(store, base, change, hash_files)
        return change

    return plan


def _on_keys(change: Change, snapshot_id: int) -> Planner:
    """Return the planner of a change that is valid only while the table has the keys of a snapshot."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_same_keys(store, base, snapshot_id)
        return change

    return plan


def _on_rows(change: Change, snapshot_id: int) -> Planner:
    """Return the planner of a change that is valid only while its buckets have the rows of a snapshot."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_same_rows(store, base, change, snapshot_id)
        return change

    return plan


def _on_buckets(planned: Planner, snapshot_id: int) -> Planner:
    """Return the planner of a change that is valid only while the buckets of its removed files are unchanged."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        change = planned(store, base)
        check_same_buckets(store, base, change, snapshot_id)
        return change

    return plan


def _on_indexed_rows(change: Change, column: DataField, tasks: Sequence[GlobalIndexTask]) -> Planner:
    """Return the planner of a change that is valid only while the table has the values that its indexes have."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_indexed_rows(store, base, change, column, tasks)
        return change

    return plan


def _on_row_ranges(planned: Planner) -> Planner:
    """Return the planner of a change that is valid only while its files cover rows as the table's files do."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        change = planned(store, base)
        check_row_ranges(store, base, change)
        return without_moved_indexes(store, base, change)

    return plan


def _on_columns(change: Change, snapshot_id: int) -> Planner:
    """Return the planner of new values of columns, valid only while nobody else changes these columns of the rows."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_same_columns(store, base, change, snapshot_id)
        check_row_ranges(store, base, change)
        return with_index_action(store, base, change)

    return plan


def _of_whole_partitions(change: Change) -> Planner:
    """Return the planner of a change that is valid only while its partitions have only files that it removes."""

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        check_whole_partitions(store, base, change)
        return change

    return plan


def _file_names(change: Change) -> set[str]:
    entries = (*change.entries, *change.changelog)
    data = {name for e in entries for name in (e.file.file_name, *e.file.extra_files)}
    return data | {e.file.file_name for e in change.index_changes}


def _replacement(
    table: Table, items: list[CommitMessage], chosen: set[bytes] | None, partitions: Predicate | None
) -> Planner:
    """Return the change that replaces the live files of the `chosen` or matching partitions by the new ones."""
    postponed = table.bucket_mode is BucketMode.POSTPONE

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        live = live_in_partitions(store, base, chosen)
        index = store.index_entries(base)
        targets = chosen
        if targets is None and partitions is not None:
            places = {e.partition for e in live} | {i.partition for i in index}
            targets = matching_partitions(table, places, partitions)
        replaced = [e for e in live if (targets is None or e.partition in targets) and (e.bucket >= 0 or postponed)]
        return overwrite_part(items, replaced, [i for i in index if targets is None or i.partition in targets])

    return plan

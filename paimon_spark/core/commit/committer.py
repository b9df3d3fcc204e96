"""Commits: from messages to published snapshots.

A snapshot is published by creating its file exclusively. Whoever loses that race starts over from the new latest
snapshot; whoever finds that files it relies on are gone stops with a ConflictError. When the store does not say
whether a snapshot was created, the next attempt looks for it before anything is repeated.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from paimon_spark.core.commit.change_set import (
    Change,
    append_part,
    combine_index,
    compact_part,
    overwrite_part,
    promote_to_top,
)
from paimon_spark.core.commit.conflicts import (
    Conflict,
    VectorChanged,
    bucket_count_conflict,
    describe,
    find_conflict,
    find_index_conflict,
    hash_index_conflict,
    vector_added_twice,
    vector_of_missing_file,
)
from paimon_spark.core.commit.deletion_vector_rewrite import rewrite_deletion_vectors
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.rollback import complete_rollback
from paimon_spark.core.metadata.manifest_merge import merge_manifests
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_tracking import assign_row_ids, tracks_rows
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import (
    ArgumentError,
    ConflictError,
    EngineError,
    ErrorKind,
    OutcomeUnknownError,
    PaimonError,
    StoreError,
)
from paimon_spark.fs.refusals import is_full, refusal
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER, BucketMode, CommitKind, FileKind, Operation
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.predicate import AlwaysTrue, Predicate
from paimon_spark.spec.snapshot import Snapshot

Planner = Callable[[ManifestStore, Snapshot | None], Change]
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Committed:
    """Snapshots were published: one, or an APPEND followed by a COMPACT."""

    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmptyCommit:
    """There was nothing to commit; the table is as before."""


CommitResult = Committed | EmptyCommit


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What a snapshot says of its commit, beside the files."""

    identifier: int = BATCH_COMMIT_IDENTIFIER
    operation: Operation | None = None
    watermark: int | None = None
    properties: dict[str, str] | None = None


@dataclass(slots=True)
class _PublishAttempts:
    """What the attempts to publish one snapshot have learned so far."""

    kind: CommitKind
    tags: CommitMetadata
    started: float
    since: int
    """Newest snapshot before the first attempt: an own one can only be above."""
    lists: set[str] = field(default_factory=set)
    """Delta manifest lists of all attempts; their names are unique, so they identify an own snapshot."""
    unknown: Exception | None = None
    """Why the outcome of an attempt is unknown; None again once its id is seen to be another commit's."""
    unknown_id: int = 0

    def failed(self, error: Exception, snapshot_id: int, store: ManifestStore) -> None:
        """Note an attempt whose outcome is open; raise the error of one that the store certainly refused."""
        if isinstance(error, StoreError) and error.refused and self.unknown is None:
            store.discard()
            raise error
        self.unknown, self.unknown_id = error, snapshot_id


@dataclass(slots=True)
class FileStoreCommit:
    """Commits to one table in the name of one user. Not to be shared between threads.

    Args:
        table: where to commit.
        commit_user: stable for a streaming job, so that repeated identifiers are recognised; random otherwise.
        clock: epoch seconds.
        sleep: waits between attempts.
    """

    table: Table
    commit_user: str | None = None
    clock: Callable[[], float] = field(default=time.time, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    _published: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        """Make up a user unless one is given."""
        if self.commit_user is None:
            prefix = self.table.options.commit_user_prefix
            self.commit_user = f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())

    @translate_io_errors()
    def commit(
        self,
        messages: Iterable[CommitMessage],
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        operation: Operation | None = None,
        ignore_empty: bool = True,
        watermark: int | None = None,
        properties: dict[str, str] | None = None,
        hash_files: Mapping[bytes, Mapping[int, str]] | None = None,
    ) -> CommitResult:
        """Publish what writers and compactors did: the writes first, the compactions after them.

        Args:
            messages: what was done.
            identifier: identifier of the commit.
            operation: what the statement was, for the snapshot.
            ignore_empty: publish nothing where nothing was done.
            watermark: watermark of the rows.
            properties: more to say in the snapshot.
            hash_files: the hash index files by which the writers chose dynamic buckets, by partition and bucket; they
                must still be the table's in the partitions that the writes change.

        Raises:
            ConflictError: files that the messages replace are gone, or every attempt lost the race.
            OutcomeUnknownError: the store never said whether the snapshot was created.
        """
        items = list(messages)
        tags = CommitMetadata(identifier, operation, watermark, properties)
        ids: list[int] = []
        written, compacted = append_part(items), compact_part(items)
        if not written.is_empty or (compacted.is_empty and not ignore_empty):
            ids.append(self._publish(self._on_index(written, hash_files), written.kind, tags))
            self._published |= _file_names(written)
        if not compacted.is_empty:
            ids.append(self._publish(lambda _store, _latest: compacted, compacted.kind, tags))
        return Committed(tuple(ids)) if ids else EmptyCommit()

    @translate_io_errors()
    def overwrite(
        self,
        messages: Iterable[CommitMessage],
        *,
        partitions: Predicate | None = None,
        dynamic: bool = False,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        operation: Operation | None = None,
        ignore_empty: bool = True,
    ) -> CommitResult:
        """Replace what is in some partitions by the new files, as the table is at the moment of the commit.

        Args:
            messages: the new files; none empties the partitions.
            partitions: filter over the partition columns; None means the whole table.
            dynamic: replace just the partitions that the messages write to; none, if they write nothing.
            identifier: identifier of the commit.
            operation: what the statement was, for the snapshot.
            ignore_empty: publish nothing where nothing is removed or added.

        Raises:
            ArgumentError: a message writes outside `partitions`.
            ConflictError: every attempt lost the race.
            OutcomeUnknownError: the store never said whether the snapshot was created.
        """
        items = promote_to_top(self.table, messages)
        written = {m.partition for m in items if m.new_files}
        self._check_inside(written, partitions)
        by_messages = dynamic and bool(self.table.schema.partition_keys)
        if by_messages and not written:
            return EmptyCommit()
        plan = _replacement(self.table, items, written if by_messages else None, partitions)
        tags = CommitMetadata(identifier, operation)
        ids: list[int] = []
        store = ManifestStore(self.table)
        if not ignore_empty or not plan(store, self.table.snapshots.latest()).is_empty:
            ids.append(self._publish(plan, CommitKind.OVERWRITE, tags))
            self._published |= _file_names(overwrite_part(items, (), ()))
        compacted = compact_part(items)
        if not compacted.is_empty:
            ids.append(self._publish(lambda _store, _latest: compacted, compacted.kind, tags))
        return Committed(tuple(ids)) if ids else EmptyCommit()

    def _on_index(self, change: Change, hash_files: Mapping[bytes, Mapping[int, str]] | None) -> Planner:
        """Return the planner of a change that holds only while the hash index files are those given."""

        def plan(store: ManifestStore, latest: Snapshot | None) -> Change:
            if hash_files is not None:
                live = store.read_index(latest.index_manifest if latest else None)
                self._refuse(hash_index_conflict(live, hash_files, change.partitions))
            return change

        return plan

    def abort(self, messages: Iterable[CommitMessage]) -> None:
        """Delete the files that uncommitted messages brought.

        Files that this committer published before (the writes of a commit whose compactions failed) stay. Not to be
        called after an OutcomeUnknownError.
        """
        paths = self.table.paths
        left: list[str] = []
        for m in messages:
            kept = self._published | {f.file_name for f in (*m.compact_before, *m.deleted_files)}
            brought = (*m.new_files, *m.new_changelog, *m.compact_after, *m.compact_changelog)
            for f in (f for f in brought if f.file_name not in kept):
                left += paths.file_paths(m.partition, m.bucket, f)
            indexes = (i for i in m.new_index_files if i.file_name not in kept)
            left += (paths.index_file(m.partition, m.bucket, i) for i in indexes)
        delete_best_effort(self.table.file_io, left)

    @contextmanager
    def or_abort(self, messages: Iterable[CommitMessage]) -> Iterator[None]:
        """Delete the files of `messages` if their commit, which is made in the block, surely failed."""
        try:
            yield
        except OutcomeUnknownError:
            raise
        except PaimonError:
            self.abort(messages)
            raise

    def uncommitted(self, identifiers: Iterable[int]) -> list[int]:
        """Return, in order, the identifiers that this user has not committed yet (for recovery before a repeat)."""
        last = self._last_identifier()
        return sorted(i for i in identifiers if last is None or i > last)

    def _last_identifier(self) -> int | None:
        snapshots = self.table.snapshots
        snapshot_id = snapshots.latest_id() or 0
        while snapshot_id > 0:
            found = snapshots.find(snapshot_id)
            if found is None:
                return None
            if found.commit_user == self.commit_user:
                return found.commit_identifier
            snapshot_id -= 1
        return None

    def _check_inside(self, written: set[bytes], partitions: Predicate | None) -> None:
        if partitions is None or isinstance(partitions, AlwaysTrue):
            return
        outside = written - matching_partitions(self.table, written, partitions)
        if outside:
            raise ArgumentError(
                f"The new rows belong to the partition '{self.table.partition_text(min(outside))}', which is not among "
                "those to be overwritten.",
                hint="Write only rows of the partitions named in the statement.",
            )

    def _publish(self, plan: Planner, kind: CommitKind, tags: CommitMetadata) -> int:
        """Try until a snapshot is published or a conflict is found; return its id."""
        snapshots = self.table.snapshots
        latest = self._base()
        race = _PublishAttempts(kind, tags, self.clock(), latest.id if latest else 0)
        for attempt in range(self.table.options.commit_max_retries + 1):
            if attempt:
                self._wait(attempt - 1)
                try:
                    latest = self._base()
                    mine = self._find_own(race, latest)
                except OutcomeUnknownError:
                    raise
                except (PaimonError, OSError):
                    if race.unknown is None:
                        raise
                    continue
                if mine is not None:
                    return mine
                if self._out_of_time(race.started):
                    break
            store = ManifestStore(self.table)
            snapshot = self._attempt(store, plan, latest, race)
            if snapshot is None:
                continue
            race.lists.add(snapshot.delta_manifest_list)
            try:
                won = snapshots.try_create(snapshot)
            except (OutcomeUnknownError, OSError) as e:
                race.failed(e, snapshot.id, store)
                continue
            except PaimonError:
                store.discard()
                raise
            if won:
                delete_best_effort(self.table.file_io, store.superseded)
                return snapshot.id
            store.discard()
        return self._last_look(race)

    def _base(self) -> Snapshot | None:
        """Return the newest snapshot. What a rollback that died has left above it goes, or it would hide a new one."""
        complete_rollback(self.table)
        return self.table.snapshots.latest()

    def _attempt(
        self, store: ManifestStore, plan: Planner, latest: Snapshot | None, race: _PublishAttempts
    ) -> Snapshot | None:
        """Return what to publish, or None if what it builds upon is not the newest any more and has expired."""
        try:
            return self._prepare(store, plan, latest, race.tags)
        except PaimonError as e:
            if e.kind is ErrorKind.FILE_MISSING and self._outdated(latest):
                return None
            if race.unknown is None:
                raise
            raise self._gave_up(race.unknown) from e

    def _outdated(self, latest: Snapshot | None) -> bool:
        """Return whether a snapshot is not the newest any more."""
        try:
            return latest is not None and self.table.snapshots.latest_id() != latest.id
        except (PaimonError, OSError):
            return False

    def _last_look(self, race: _PublishAttempts) -> int:
        """Return the snapshot of the last attempt, which may have succeeded, or give up."""
        try:
            mine = self._find_own(race, self.table.snapshots.latest())
        except (PaimonError, OSError) as e:
            if race.unknown is None:
                raise
            raise self._gave_up(race.unknown) from e
        if mine is not None:
            return mine
        raise self._gave_up(race.unknown)

    def _prepare(self, store: ManifestStore, plan: Planner, latest: Snapshot | None, tags: CommitMetadata) -> Snapshot:
        try:
            change = plan(store, latest)
            self._check(store, latest, change)
            return self._snapshot(store, latest, self._settle(store, latest, change), tags)
        except StoreError:
            store.discard()
            raise
        except OSError as e:
            store.discard()
            if is_full(e):
                raise refusal(e) from e
            raise EngineError(
                f"The metadata of a commit to table {self.table.name} cannot be written: {e}.",
                hint="Nothing was committed. Make the table's directory writable and run the statement again.",
                kind=ErrorKind.ENVIRONMENT,
            ) from e
        except BaseException:
            store.discard()
            raise

    def _check(self, store: ManifestStore, latest: Snapshot | None, change: Change) -> None:
        fixed = self.table.bucket_mode is BucketMode.HASH_FIXED
        if not change.needs_check and not fixed:
            return
        base = live_in_partitions(store, latest, change.partitions) if change.partitions else []
        conflict: Conflict | None
        if change.needs_check:
            conflict = find_conflict(base, change.entries, change.kind, self.table.key_types)
        else:
            conflict = bucket_count_conflict(base, change.entries)
        if conflict is None and change.needs_check:
            removed = [e for e in change.index_changes if e.kind is FileKind.DELETE]
            live = store.read_index(latest.index_manifest if latest else None)
            there = [*base, *(e for e in change.entries if e.kind is FileKind.ADD)]
            conflict = (
                vector_added_twice(change.index_changes)
                or vector_of_missing_file(there, change.marked)
                or find_index_conflict(live, removed)
            )
        self._refuse(conflict)

    def _settle(self, store: ManifestStore, latest: Snapshot | None, change: Change) -> Change:
        """Return the change with what it does to deletion vectors."""
        if self.table.is_primary_key_table or not change.needs_check:
            return change
        found = rewrite_deletion_vectors(store, store.read_index(latest.index_manifest if latest else None), change)
        if isinstance(found, VectorChanged):
            raise self._refusal(found)
        store.superseded = list(found.unused)
        return found.change

    def _refuse(self, conflict: Conflict | None) -> None:
        if conflict is not None:
            raise self._refusal(conflict)

    def _refusal(self, conflict: Conflict) -> ConflictError:
        what, hint = describe(conflict, self.table.partition_text)
        return ConflictError(f"The commit to table {self.table.name} is refused. {what}", hint=hint)

    def _snapshot(
        self, store: ManifestStore, latest: Snapshot | None, change: Change, tags: CommitMetadata
    ) -> Snapshot:
        snapshot_id = latest.id + 1 if latest else 1
        next_row_id = latest.next_row_id if latest else None
        if tracks_rows(self.table):
            grouped = self.table.options.flag("row-tracking.partition-group-on-commit")
            entries, next_row_id = assign_row_ids(change.entries, snapshot_id, next_row_id or 0, grouped=grouped)
            change = replace(change, entries=entries)
        schema_ids = self.table.schema_store.ids()
        schema_id = max(schema_ids, default=self.table.schema.id)
        base = merge_manifests(store, store.data_manifests(latest), schema_id) if latest else []
        base_list, base_size = store.write_list(base)
        delta_list, delta_size = store.write_list(store.write(change.entries, schema_id))
        changelog_list, changelog_size = (
            store.write_list(store.write(change.changelog, schema_id)) if change.changelog else (None, None)
        )
        delta_rows = _row_balance(change.entries)
        now = int(self.clock() * 1000)
        return Snapshot(
            id=snapshot_id,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            index_manifest=self._index_manifest(store, latest, change),
            commit_user=str(self.commit_user),
            commit_identifier=tags.identifier,
            commit_kind=change.kind,
            time_millis=max(now, latest.time_millis) if latest else now,
            total_record_count=(latest.total_record_count if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(e.file.row_count for e in change.changelog) if change.changelog else None,
            watermark=_later(latest.watermark if latest else None, tags.watermark),
            statistics=latest.statistics if latest and latest.schema_id == schema_id else None,
            properties=tags.properties,
            next_row_id=next_row_id,
            operation=tags.operation,
        )

    def _index_manifest(self, store: ManifestStore, latest: Snapshot | None, change: Change) -> str | None:
        name = latest.index_manifest if latest else None
        if not change.index_changes:
            return name
        return store.write_index(combine_index(self.table.bucket_mode, store.read_index(name), change.index_changes))

    def _find_own(self, race: _PublishAttempts, latest: Snapshot | None) -> int | None:
        """Return the snapshot by which an earlier attempt succeeded after all, if one did.

        Raises:
            OutcomeUnknownError: the snapshot of an attempt whose outcome is open may have been there and expired, or
                is there, but the store does not tell whether it can stay.
        """
        newest, snapshots = latest.id if latest else 0, self.table.snapshots
        for snapshot_id in range(race.since + 1, newest + 1):
            found = snapshots.find(snapshot_id)
            if found is None:
                if race.unknown is not None and snapshot_id == race.unknown_id:
                    raise self._gave_up(race.unknown)
                continue
            own = found.delta_manifest_list in race.lists
            if own and snapshots.withdraw_stranded(found):
                continue
            if own or self._repeats(found, race):
                snapshots.write_latest_hint(newest)
                return snapshot_id
        if race.unknown_id <= newest:
            race.unknown = None
        return None

    def _repeats(self, found: Snapshot, race: _PublishAttempts) -> bool:
        own = (self.commit_user, race.tags.identifier, race.kind)
        same = (found.commit_user, found.commit_identifier, found.commit_kind) == own
        return same and race.tags.identifier != BATCH_COMMIT_IDENTIFIER

    def _wait(self, retry: int) -> None:
        options = self.table.options
        millis = min(options.commit_min_retry_wait_ms * 2**retry, options.commit_max_retry_wait_ms)
        self.sleep(millis / 1000 * (1 + random.random() * _JITTER))

    def _out_of_time(self, started: float) -> bool:
        timeout = self.table.options.commit_timeout_ms
        return timeout is not None and (self.clock() - started) * 1000 > timeout

    def _gave_up(self, unknown: Exception | None) -> OutcomeUnknownError | ConflictError:
        if unknown is not None:
            error = OutcomeUnknownError(
                f"The store did not say whether the commit to table {self.table.name} succeeded ({unknown}).",
                hint=f"Look for the commit user {self.commit_user} in its snapshots before you run it again.",
            )
            error.__cause__ = unknown
            return error
        return ConflictError(
            f"The commit to table {self.table.name} lost the race for the next snapshot "
            f"{self.table.options.commit_max_retries + 1} times; nothing was written.",
            hint="Run the statement again, or raise the table option 'commit.max-retries'.",
            kind=ErrorKind.COMMIT_RETRIES_EXHAUSTED,
        )


def _file_names(change: Change) -> set[str]:
    data = {e.file.file_name for e in (*change.entries, *change.changelog)}
    return data | {e.file.file_name for e in change.index_changes}


def _replacement(
    table: Table, items: list[CommitMessage], chosen: set[bytes] | None, partitions: Predicate | None
) -> Planner:
    """Return what replaces the live files of the `chosen` partitions, or of those that match, by the new ones."""
    postponed = table.bucket_mode is BucketMode.POSTPONE

    def plan(store: ManifestStore, latest: Snapshot | None) -> Change:
        live = live_in_partitions(store, latest, chosen)
        index = store.read_index(latest.index_manifest if latest else None)
        targets = chosen
        if targets is None and partitions is not None:
            places = {e.partition for e in live} | {i.partition for i in index}
            targets = matching_partitions(table, places, partitions)
        doomed = [e for e in live if (targets is None or e.partition in targets) and (e.bucket >= 0 or postponed)]
        return overwrite_part(items, doomed, [i for i in index if targets is None or i.partition in targets])

    return plan


def _row_balance(entries: Sequence[ManifestEntry]) -> int:
    return sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in entries)


def _later(previous: int | None, given: int | None) -> int | None:
    known = [w for w in (previous, given) if w is not None]
    return max(known, default=None)

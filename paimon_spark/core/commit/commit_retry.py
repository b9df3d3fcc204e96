"""The race for the next snapshot.

A snapshot is published by creating its file exclusively. Each attempt builds it on top of the newest snapshot and has
one of these outcomes::

    Won       the snapshot is published
    Lost      another commit took the id: try again on top of that one
    Outdated  the base expired while the attempt read it: try again on top of the newest snapshot
    Unknown   the store did not report whether it created the file: look for it before trying again
    TimedOut  there was no time left for the attempt

A conflict ends the race with a ConflictError; so does an error of the store that excludes that the file was created.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.schema_check import check_schemas
from paimon_spark.core.commit.snapshot_builder import BuiltSnapshot, SnapshotBuilder
from paimon_spark.core.maintenance.rollback import complete_rollback
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.table import Table
from paimon_spark.errors import (
    ConflictError,
    EngineError,
    ErrorKind,
    OutcomeUnknownError,
    PaimonError,
    StoreError,
)
from paimon_spark.fs.refusals import is_full, refusal
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER, CommitKind
from paimon_spark.spec.snapshot import Snapshot

Planner = Callable[[ManifestStore, Snapshot | None], Change]
"""Returns the changes, given the newest snapshot; called once per attempt."""
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Won:
    """The snapshot is published."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Another commit took the snapshot's id; the files of the attempt are deleted."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """The base is not the newest snapshot any more and has expired; the files of the attempt are deleted."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store did not report whether it created the snapshot; the files of the attempt are kept."""

    snapshot_id: int
    error: Exception


@dataclass(frozen=True, slots=True)
class TimedOut:
    """There is no time for another attempt."""


Outcome = Won | Lost | Outdated | Unknown | TimedOut


@dataclass(slots=True)
class _PublishAttempts:
    """The state of the attempts to publish one snapshot."""

    started: float
    since: int
    """A snapshot of this commit can only be above this one."""
    lists: set[str] = field(default_factory=set)
    """Delta manifest lists of all attempts; their names are unique, so they identify a snapshot of this commit."""
    unknown: Unknown | None = None
    """The last attempt whose outcome is open; None again once its id is found to be another commit's."""


@dataclass(frozen=True, slots=True)
class SnapshotPublisher:
    """Publishes one snapshot.

    Args:
        builder: builds it on top of the base of each attempt.
        plan: returns the changes.
        kind: kind of the snapshot.
        sleep: waits between attempts.
        since: the newest snapshot when the commit of a streaming job was found to be missing; another process of the
            job may have committed it above that snapshot. None if no other process makes it.
        alone: returns whether no other process of the job can have made the commit, if snapshots above `since` have
            expired.
    """

    builder: SnapshotBuilder
    plan: Planner
    kind: CommitKind
    sleep: Callable[[float], None] = field(repr=False)
    since: int | None = None
    alone: Callable[[], bool] | None = field(default=None, repr=False)

    @property
    def _table(self) -> Table:
        return self.builder.table

    def publish(self) -> int:
        """Try until the snapshot is published; return its id.

        Raises:
            ConflictError: the change conflicts with the current table, or every attempt lost the race.
            OutcomeUnknownError: the store never reported whether the snapshot was created.
        """
        base = self._newest()
        newest = base.id if base else 0
        attempts = _PublishAttempts(self.builder.clock(), newest if self.since is None else self.since)
        own = None if self.since is None else self._find_own(base, attempts)
        outcome = self._attempt(base, attempts) if own is None else Won(own)
        for retry in range(self._table.options.commit_max_retries):
            if isinstance(outcome, Won | TimedOut):
                break
            self._wait(retry)
            outcome = self._retry(attempts)
        return outcome.snapshot_id if isinstance(outcome, Won) else self._last_look(attempts)

    def _newest(self) -> Snapshot | None:
        """Return the newest snapshot. Snapshots above it, left by an interrupted rollback, are removed first."""
        complete_rollback(self._table)
        return self._table.snapshots.latest()

    def _retry(self, attempts: _PublishAttempts) -> Outcome:
        """Make another attempt unless an earlier one turns out to have succeeded, or the time is over."""
        try:
            base = self._newest()
            own = self._find_own(base, attempts)
        except OutcomeUnknownError:
            raise
        except (PaimonError, OSError):
            if attempts.unknown is None:
                raise
            return attempts.unknown
        if own is not None:
            return Won(own)
        return TimedOut() if self._out_of_time(attempts) else self._attempt(base, attempts)

    def _attempt(self, base: Snapshot | None, attempts: _PublishAttempts) -> Outcome:
        """Build the snapshot on top of `base` and try to create it."""
        store = ManifestStore(self._table)
        try:
            built = self._build(store, base)
        except PaimonError as e:
            if e.kind is ErrorKind.FILE_MISSING and self._outdated(base):
                return Outdated()
            if attempts.unknown is None:
                raise
            raise self._gave_up(attempts) from e
        outcome = self._create(store, built.snapshot, attempts)
        if isinstance(outcome, Won):
            delete_best_effort(self._table.file_io, built.superseded)
        return outcome

    def _build(self, store: ManifestStore, base: Snapshot | None) -> BuiltSnapshot:
        """Return the snapshot to publish. After an error, the files written for it are deleted."""
        try:
            schema_id = check_schemas(self._table)
            built = self.builder.build(store, base, self.plan(store, base), schema_id)
            store.sync()
            return built
        except StoreError:
            store.discard()
            raise
        except OSError as e:
            store.discard()
            if is_full(e):
                raise refusal(e) from e
            raise EngineError(
                f"The metadata of a commit to table {self._table.name} cannot be written: {e}.",
                hint="Nothing was committed. Make the table's directory writable and run the statement again.",
                kind=ErrorKind.ENVIRONMENT,
            ) from e
        except BaseException:
            store.discard()
            raise

    def _create(self, store: ManifestStore, snapshot: Snapshot, attempts: _PublishAttempts) -> Won | Lost | Unknown:
        """Try to create the snapshot file.

        Raises:
            PaimonError: the store rejected it, and the outcome of no earlier attempt is open.
        """
        attempts.lists.add(snapshot.delta_manifest_list)
        try:
            created = self._table.snapshots.try_create(snapshot)
        except (OutcomeUnknownError, OSError) as e:
            if isinstance(e, StoreError) and e.refused and attempts.unknown is None:
                store.discard()
                raise
            attempts.unknown = Unknown(snapshot.id, e)
            return attempts.unknown
        except PaimonError:
            store.discard()
            raise
        if created:
            return Won(snapshot.id)
        store.discard()
        return Lost()

    def _outdated(self, base: Snapshot | None) -> bool:
        """Return whether a snapshot is not the newest any more."""
        try:
            return base is not None and self._table.snapshots.latest_id() != base.id
        except (PaimonError, OSError):
            return False

    def _last_look(self, attempts: _PublishAttempts) -> int:
        """Return the snapshot of an attempt that may have succeeded, or give up."""
        try:
            own = self._find_own(self._table.snapshots.latest(), attempts)
        except (PaimonError, OSError) as e:
            if attempts.unknown is None:
                raise
            raise self._gave_up(attempts) from e
        if own is None:
            raise self._gave_up(attempts)
        return own

    def _find_own(self, newest: Snapshot | None, attempts: _PublishAttempts) -> int | None:
        """Return the snapshot by which an earlier attempt succeeded after all, if one did.

        Raises:
            OutcomeUnknownError: the snapshot of an attempt whose outcome is open may have been there and expired, or
                exists, but it cannot be checked whether it is valid.
        """
        last, snapshots, unknown = newest.id if newest else 0, self._table.snapshots, attempts.unknown
        missing: int | None = None
        for snapshot_id in range(attempts.since + 1, last + 1):
            found = snapshots.find(snapshot_id)
            if found is None:
                if unknown is not None and snapshot_id == unknown.snapshot_id:
                    raise self._gave_up(attempts)
                missing = missing or snapshot_id
            elif self._is_own(found, attempts):
                snapshots.write_latest_hint(last)
                return snapshot_id
        if missing is not None and self.alone is not None and not self.alone():
            raise self._expired(missing)
        if unknown is not None and unknown.snapshot_id <= last:
            attempts.unknown = None
        return None

    def _expired(self, snapshot_id: int) -> OutcomeUnknownError:
        metadata, user = self.builder.metadata, self.builder.commit_user
        return OutcomeUnknownError(
            f"It is not known whether commit {metadata.identifier} of {user} is in table {self._table.name}: another "
            f"process, perhaps the one before a restart, has begun it too and may have made it, and snapshot "
            f"{snapshot_id} has expired.",
            hint="Stop the other process if it runs. Restart this one: its error then names the file to delete if the "
            "rows of the commit are not in the table.",
        )

    def _is_own(self, found: Snapshot, attempts: _PublishAttempts) -> bool:
        """Return whether a snapshot is of this commit, and valid."""
        if found.delta_manifest_list in attempts.lists:
            return not self._table.snapshots.withdraw_stranded(found)
        return self._repeats(found)

    def _repeats(self, found: Snapshot) -> bool:
        """Return whether a snapshot is of the same commit of a streaming job, made by another process of it.

        Raises:
            ConflictError: it has the identifier of the commit, but not its properties.
        """
        metadata, user = self.builder.metadata, self.builder.commit_user
        own = (user, metadata.identifier, self.kind)
        same = (found.commit_user, found.commit_identifier, found.commit_kind) == own
        if not same or metadata.identifier == BATCH_COMMIT_IDENTIFIER:
            return False
        given, recorded = metadata.properties or {}, found.properties or {}
        if any(recorded.get(key, value) != value for key, value in given.items()):
            raise ConflictError(
                f"Commit {metadata.identifier} of {user} cannot be made to table {self._table.name}: snapshot "
                f"{found.id} has another commit of that number, by another process.",
                hint="Stop the other process, and restart this one from the newest checkpoint.",
            )
        return True

    def _wait(self, retry: int) -> None:
        options = self._table.options
        millis = min(options.commit_min_retry_wait_ms * 2**retry, options.commit_max_retry_wait_ms)
        self.sleep(millis / 1000 * (1 + random.random() * _JITTER))

    def _out_of_time(self, attempts: _PublishAttempts) -> bool:
        timeout = self._table.options.commit_timeout_ms
        return timeout is not None and (self.builder.clock() - attempts.started) * 1000 > timeout

    def _gave_up(self, attempts: _PublishAttempts) -> OutcomeUnknownError | ConflictError:
        if attempts.unknown is not None:
            unknown = attempts.unknown.error
            error = OutcomeUnknownError(
                f"The store did not report whether the commit to table {self._table.name} succeeded ({unknown}).",
                hint=f"Check its snapshots for the commit user {self.builder.commit_user} before you run it again.",
            )
            error.__cause__ = unknown
            return error
        return ConflictError(
            f"The commit to table {self._table.name} lost the race for the next snapshot "
            f"{self._table.options.commit_max_retries + 1} times; nothing was written.",
            hint="Run the statement again, or raise the table option 'commit.max-retries'.",
            kind=ErrorKind.COMMIT_RETRIES_EXHAUSTED,
        )

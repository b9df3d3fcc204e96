"""The snapshot files of one table or branch: listing, reading and publishing."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.core.metadata_io import read_if_there, translate_io_errors
from paimon_spark.errors import (
    CorruptTableError,
    ErrorKind,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    UnsupportedError,
)
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.paths import TablePaths
from paimon_spark.spec.snapshot import Snapshot, parse_snapshot

_PREFIX = "snapshot-"
_EARLIEST_STEPS = 300
_HINT_DIGITS = 19
_ROLLBACK = re.compile(rb"rollback to (\d{1,19})(?: in ([0-9a-f-]{1,40}))?\.")
_CHANGING_READS = 3
"""How often the latest snapshot is looked up again if it vanishes between two reads."""


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Reads and publishes snapshots. Nothing is cached: after a rollback, an id may be reused."""

    file_io: FileIO
    paths: TablePaths

    def latest_id(self) -> int | None:
        """Return the latest id, or None for a table without snapshots; a stale hint is detected.

        During a rollback, and after an interrupted one, this is the id of its target.
        """
        text = self._hint_text(self.paths.latest_hint)
        target = self._rollback_target(text)
        if target is not None:
            return target
        hint = _number(text)
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint
        newest = max(self.listed_ids(), default=None)
        while newest is not None and self.exists(newest + 1):
            newest += 1  # listings of some stores are stale; lookups of single files are not
        return newest

    def earliest_id(self) -> int | None:
        """Return the lowest existing id."""
        hint = _number(self._hint_text(self.paths.earliest_hint))
        if hint is not None and self.exists(hint):
            return hint
        return min(self.listed_ids(), default=None)

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot."""
        for _ in range(_CHANGING_READS):
            latest = self.latest_id()
            if latest is None:
                return None
            found = self.find(latest)
            if found is not None:
                return found
        raise CorruptTableError(
            f"The newest snapshot below {self.paths.snapshot_dir} disappears while it is being read.",
            hint="Check whether another program removes snapshots of this table, then try again.",
            kind=ErrorKind.FILE_MISSING,
        )

    def earliest(self) -> Snapshot | None:
        """Return the earliest snapshot; ids that expire concurrently are skipped."""
        first = self.earliest_id()
        if first is None:
            return None
        for snapshot_id in range(first, first + _EARLIEST_STEPS):
            found = self.find(snapshot_id)
            if found is not None:
                return found
        return None

    def ids(self) -> list[int]:
        """Return all ids, sorted, without those that a rollback is about to remove."""
        target = self.rollback_target()
        return [i for i in self.listed_ids() if target is None or i <= target]

    @translate_io_errors()
    def listed_ids(self) -> list[int]:
        """Return the ids of all snapshot files, sorted. Files whose names do not end in a number are ignored."""
        names = (s.name for s in self.file_io.list(self.paths.snapshot_dir) if not s.is_dir)
        ends = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    @translate_io_errors()
    def exists(self, snapshot_id: int) -> bool:
        """Return whether the snapshot file exists."""
        return self.file_io.exists(self.paths.snapshot(snapshot_id))

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot, or None if it does not exist."""
        path = self.paths.snapshot(snapshot_id)
        data = read_if_there(self.file_io, path)
        if data is None:
            return None
        snapshot, _ = parse_snapshot(data, path)
        if snapshot.id != snapshot_id:
            raise CorruptTableError(
                f"The snapshot file {path} is malformed: its id is {snapshot.id}.",
                hint="Restore the file, or roll back to an earlier snapshot or tag.",
            )
        return snapshot

    def get(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot.

        Raises:
            NotFoundError: it does not exist; the message gives the range of existing ids.
        """
        found = self.find(snapshot_id)
        if found is None:
            raise self._missing(snapshot_id)
        return found

    def has_other(self, snapshot: Snapshot) -> bool:
        """Return whether another snapshot has the id of a snapshot, such as that of a tag after a fast-forward."""
        found = self.find(snapshot.id)
        return found is not None and not found.is_commit_of(snapshot)

    def at_or_before(self, millis: int) -> Snapshot | None:
        """Return the latest snapshot committed at or before an epoch time, or None if all are newer.

        Snapshots are listed only if one of those looked at is missing: it has just expired, or the ids have a gap.
        """
        best, last = self.earliest(), self.latest_id()
        if best is None or last is None or best.time_millis > millis:
            return None
        left: Sequence[int] = range(best.id + 1, last + 1)
        while left:
            middle = len(left) // 2
            found = self.find(left[middle])
            if found is None:
                wanted = left if isinstance(left, range) else set(left)
                left = [i for i in self.ids() if i in wanted and i != left[middle]]
            elif found.time_millis <= millis:
                best, left = found, left[middle + 1 :]
            else:
                left = left[:middle]
        return best

    def try_create(self, snapshot: Snapshot) -> bool:
        """Publish a snapshot and update the hint; return False if the id is in use, or was used and has expired.

        Raises:
            OutcomeUnknownError: the create got no response, or it cannot be checked whether the id was used.
            UnsupportedError: the store cannot create a file exclusively.
        """
        if not self.file_io.exclusive_create:
            raise UnsupportedError(
                f"The store of {self.paths.snapshot_dir} cannot create a file exclusively; commits would be lost.",
                hint="Keep the warehouse on a store with atomic create or rename.",
                kind=ErrorKind.UNSUPPORTED_STORE,
            )
        path, data = self.paths.snapshot(snapshot.id), snapshot.to_json().encode()
        if not self.file_io.create_exclusive(path, data) and not self._holds(path, data):
            return False
        if self.withdraw_stranded(snapshot):
            return False
        self.write_latest_hint(snapshot.id)
        if snapshot.id == 1:
            self.write_earliest_hint(1)
        return True

    def withdraw_stranded(self, snapshot: Snapshot) -> bool:
        """Delete a newly created snapshot if it is stranded on an expired id; return whether it was.

        Raises:
            OutcomeUnknownError: the check failed. The snapshot may be the latest, so its files must be kept.
        """
        try:
            if not self._is_stranded(snapshot):
                return False
            self.file_io.delete(self.paths.snapshot(snapshot.id))
        except (OSError, PaimonError) as e:
            raise OutcomeUnknownError(
                f"{self.paths.snapshot(snapshot.id)} was created, but the snapshot before it cannot be checked: {e}",
                hint="Check whether the table has it before you run the statement again.",
            ) from e
        return True

    def _is_stranded(self, snapshot: Snapshot) -> bool:
        """Return whether a new snapshot has the id of an older one that had expired before.

        Snapshots expire from the earliest on, so if the previous snapshot exists, this id cannot have expired.
        """
        before, after = snapshot.id - 1, snapshot.id + 1
        if before and self.exists(before):
            return False
        follower = self.find(after)
        if follower is not None:
            total, delta = follower.total_record_count, follower.delta_record_count
            known = None not in (total, delta, snapshot.total_record_count)
            if known and (total or 0) - (delta or 0) != snapshot.total_record_count:
                return True
            theirs = self._written(after)  # read first: while it exists, the previous snapshot has not been removed
            return self._written(snapshot.id) > theirs
        younger = any(i > after for i in self.listed_ids())
        return younger and not self.exists(after) and self.exists(snapshot.id)

    def _written(self, snapshot_id: int) -> int:
        """Return the modification time of a snapshot file by the store's clock; 0 if it does not exist."""
        try:
            return self.file_io.status(self.paths.snapshot(snapshot_id)).mtime_ms
        except FileNotFoundError:
            return 0

    def latest_hint(self) -> int | None:
        """Return the id in the hint, which may be stale; None if there is no valid hint."""
        return _number(self._hint_text(self.paths.latest_hint))

    def lost_id(self) -> int | None:
        """Return the id in the hint if neither that snapshot nor a newer one exists, or None.

        A commit writes the hint after its snapshot, and a rollback before it deletes one: the snapshot was lost.
        """
        hint = self.latest_hint()
        if hint is None or self.exists(hint) or max(self.listed_ids(), default=0) > hint:
            return None
        return hint if self.latest_hint() == hint and not self.exists(hint) else None

    @translate_io_errors()
    def begin_rollback(self, snapshot_id: int, run: str | None = None) -> None:
        """Make a snapshot the latest at once, hiding all above it; takes effect once the snapshot exists.

        The hint is written in a form that other clients do not parse as a number, so they fall back to listing: for
        them, the table goes back snapshot by snapshot, and a commit of theirs ends the rollback.

        Args:
            snapshot_id: the target.
            run: the run of the trash that takes the removed files.
        """
        where = "" if run is None else f" in {run}"
        self.file_io.write(self.paths.latest_hint, f"rollback to {snapshot_id}{where}.".encode("ascii"))

    @translate_io_errors()
    def end_rollback(self, snapshot_id: int) -> None:
        """Write a plain hint, which ends the rollback. Unlike other hint writes, this one must not fail silently."""
        self.file_io.write(self.paths.latest_hint, b"%d" % snapshot_id)

    def rollback_target(self) -> int | None:
        """Return the target of an unfinished rollback, or None."""
        return self._rollback_target(self._hint_text(self.paths.latest_hint))

    def rollback_run(self) -> str | None:
        """Return the run of the trash of an unfinished rollback, or None."""
        found = _ROLLBACK.fullmatch(self._hint_text(self.paths.latest_hint))
        return found[2].decode("ascii") if found and found[2] else None

    def _rollback_target(self, hint: bytes) -> int | None:
        found = _ROLLBACK.fullmatch(hint)
        return int(found[1]) if found and self.exists(int(found[1])) else None

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the latest hint. Failures are ignored: readers fall back to listing."""
        self._write_hint(self.paths.latest_hint, snapshot_id)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the earliest hint. Failures are ignored."""
        self._write_hint(self.paths.earliest_hint, snapshot_id)

    def _write_hint(self, path: str, value: int) -> None:
        with contextlib.suppress(OSError, PaimonError):
            self.file_io.write(path, str(value).encode("ascii"))

    def _hint_text(self, path: str) -> bytes:
        try:
            return self.file_io.read(path)
        except (OSError, PaimonError):
            return b""

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.file_io.read(path) == data
        except FileNotFoundError:
            return False

    def _missing(self, snapshot_id: int) -> NotFoundError:
        known = self.ids()
        if not known:
            message = f"Snapshot {snapshot_id} does not exist; the table has no snapshot yet."
            hint = "Write to it first."
        else:
            message = f"Snapshot {snapshot_id} does not exist; the table has the snapshots {known[0]} to {known[-1]}."
            hint = "Pick one of them, or a tag."
        return NotFoundError(message, hint=hint, kind=ErrorKind.SNAPSHOT_NOT_FOUND)


def _number(hint: bytes) -> int | None:
    return int(hint) or None if hint.isdigit() and len(hint) <= _HINT_DIGITS else None

"""The snapshot files of one table or branch: which exist, what they say, how the next one is published."""

from __future__ import annotations

import contextlib
import re
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
_ROLLBACK = re.compile(rb"rollback to (\d{1,19})\.")
_CHANGING_READS = 3
"""How often a latest snapshot that vanishes between two reads is looked up again."""


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Reads and publishes snapshots. Nothing is cached: a rollback may give an id another content."""

    file_io: FileIO
    paths: TablePaths

    def latest_id(self) -> int | None:
        """Return the highest id, or None for a table without snapshots; the hint may lag and is checked.

        While a rollback removes snapshots, or after it died at that, it is the one that was rolled back to.
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
            newest += 1  # the listing of some stores lags, asking for one file does not
        return newest

    def earliest_id(self) -> int | None:
        """Return the lowest id that still exists."""
        hint = _number(self._hint_text(self.paths.earliest_hint))
        if hint is not None and self.exists(hint):
            return hint
        return min(self.listed_ids(), default=None)

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot."""
        for _ in range(_CHANGING_READS):
            latest = self.latest_id()
            if latest is None:
                return None
            found = self.find(latest)
            if found is not None:
                return found
        raise CorruptTableError(
            f"The newest snapshot below {self.paths.snapshot_dir} vanishes while it is read.",
            hint="Look whether another program removes snapshots of this table, then try again.",
            kind=ErrorKind.FILE_MISSING,
        )

    def earliest(self) -> Snapshot | None:
        """Return the oldest snapshot; files that a concurrent expiration removes are stepped over."""
        first = self.earliest_id()
        if first is None:
            return None
        for snapshot_id in range(first, first + _EARLIEST_STEPS):
            found = self.find(snapshot_id)
            if found is not None:
                return found
        return None

    def ids(self) -> list[int]:
        """Return all ids in order, without those that a rollback is about to remove."""
        target = self.rollback_target()
        return [i for i in self.listed_ids() if target is None or i <= target]

    @translate_io_errors()
    def listed_ids(self) -> list[int]:
        """Return the ids of all snapshot files in order. Names that do not end in a number are no snapshots."""
        names = (s.name for s in self.file_io.list(self.paths.snapshot_dir) if not s.is_dir)
        ends = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    @translate_io_errors()
    def exists(self, snapshot_id: int) -> bool:
        """Return whether the snapshot file is there."""
        return self.file_io.exists(self.paths.snapshot(snapshot_id))

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot, or None if there is no such file."""
        path = self.paths.snapshot(snapshot_id)
        data = read_if_there(self.file_io, path)
        if data is None:
            return None
        snapshot, _ = parse_snapshot(data, path)
        if snapshot.id != snapshot_id:
            raise CorruptTableError(
                f"The snapshot file {path} is malformed: it says it is snapshot {snapshot.id}.",
                hint="Restore the file, or roll back to an earlier snapshot or tag.",
            )
        return snapshot

    def get(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot.

        Raises:
            NotFoundError: it does not exist; the message names the ids that do.
        """
        found = self.find(snapshot_id)
        if found is None:
            raise self._missing(snapshot_id)
        return found

    def at_or_before(self, millis: int) -> Snapshot | None:
        """Return the newest snapshot committed at or before an epoch time, or None if all are younger."""
        first, last = self.earliest(), self.latest_id()
        if first is None or last is None or first.time_millis > millis:
            return None
        low, high, best = first.id, last, first
        while low <= high:
            middle = (low + high) // 2
            found = self.find(middle)
            if found is None:
                low = middle + 1
            elif found.time_millis <= millis:
                best, low = found, middle + 1
            else:
                high = middle - 1
        return best

    def try_create(self, snapshot: Snapshot) -> bool:
        """Publish a snapshot and the hint; return False if the id is taken by another commit, or was until it expired.

        Raises:
            OutcomeUnknownError: the store did not say whether the file was created, or whether it can stay.
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
        """Delete a snapshot that was just created if nothing leads to it; return whether that was so.

        Raises:
            OutcomeUnknownError: the store does not tell. It may be the table's newest, so its files must stay.
        """
        try:
            if not self._is_stranded(snapshot):
                return False
            self.file_io.delete(self.paths.snapshot(snapshot.id))
        except (OSError, PaimonError) as e:
            raise OutcomeUnknownError(
                f"{self.paths.snapshot(snapshot.id)} was created, but its neighbours cannot be looked at: {e}",
                hint="Look whether the table has it before you run the statement again.",
            ) from e
        return True

    def _is_stranded(self, snapshot: Snapshot) -> bool:
        """Return whether a new snapshot took an id that others had used and that had expired before it came.

        Snapshots expire from the oldest on, so where the one before is there still, this one cannot have expired.
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
            theirs = self._written(after)  # first: while it is there, nobody has removed the one before it
            return self._written(snapshot.id) > theirs
        younger = any(i > after for i in self.listed_ids())
        return younger and not self.exists(after) and self.exists(snapshot.id)

    def _written(self, snapshot_id: int) -> int:
        """Return when the store wrote a snapshot file, by its own clock; 0 if it is gone."""
        try:
            return self.file_io.status(self.paths.snapshot(snapshot_id)).mtime_ms
        except FileNotFoundError:
            return 0

    def latest_hint(self) -> int | None:
        """Return what the hint says, right or wrong; None if there is none."""
        return _number(self._hint_text(self.paths.latest_hint))

    @translate_io_errors()
    def begin_rollback(self, snapshot_id: int) -> None:
        """Make a snapshot the newest at once, and all above it none; if it is not there yet, as soon as it is.

        The hint says so in words that other programs take for no number. Without a hint they look what is there: for
        them the table goes back snapshot by snapshot, and what they commit meanwhile ends the rollback.
        """
        self.file_io.write(self.paths.latest_hint, b"rollback to %d." % snapshot_id)

    @translate_io_errors()
    def end_rollback(self, snapshot_id: int) -> None:
        """Say that nothing is left above the snapshot. Unlike with other hints it matters that this is written."""
        self.file_io.write(self.paths.latest_hint, b"%d" % snapshot_id)

    def rollback_target(self) -> int | None:
        """Return what a rollback that has not come to its end goes back to."""
        return self._rollback_target(self._hint_text(self.paths.latest_hint))

    def _rollback_target(self, hint: bytes) -> int | None:
        found = _ROLLBACK.fullmatch(hint)
        return int(found[1]) if found and self.exists(int(found[1])) else None

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Note the newest id. A failure is harmless: readers fall back to listing."""
        self._write_hint(self.paths.latest_hint, snapshot_id)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Note the oldest id. A failure is harmless."""
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

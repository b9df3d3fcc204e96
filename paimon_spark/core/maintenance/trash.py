"""The trash of a table: files that a procedure removed, kept in ``.trash/<run>`` until their retention ends.

A run is one execution of a procedure. Its files keep their paths relative to the table below ``files``; ``run.json``
describes it and is written before the first file is moved. Readers, Paimon's orphan cleaning and this project's list
only directories of the table format, so none of them looks into ``.trash``.
"""

from __future__ import annotations

import getpass
import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from threading import Lock
from typing import Any

from paimon_spark.core.metadata_io import read_if_there
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError, CorruptTableError, ErrorKind, PaimonError, UnsupportedError
from paimon_spark.fs.base import FileIO, FileStatus
from paimon_spark.spec.stored_json import json_object

RUN_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
_RECORD = "run.json"
_FILES = "files"
_VERSION = 1
_ASIDE = re.compile(r"snapshot-\d{1,19}-[0-9a-f]{32}-[0-9a-f]{32}")
_CREATED = re.compile(r"(snapshot|changelog)-\d{1,19}")


class TrashKind(StrEnum):
    """What an undo has to do besides restoring files."""

    REMOVAL = "removal"
    """The files are older than what stays, or are not part of the history: nothing else."""
    ROLLBACK = "rollback"
    """The snapshots are newer than the target: the latest snapshot changes."""
    PURGE = "purge"
    """All of the table: its empty snapshots are removed again."""


class TrashState(StrEnum):
    """How far a run is."""

    OPEN = "open"
    """The procedure is running, or was interrupted."""
    DONE = "done"
    UNDOING = "undoing"
    EMPTYING = "emptying"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRecord:
    """The description of a run.

    `earliest` and `latest` are the snapshots before the run, `target` is that of a rollback. `created` are the names
    of snapshot and changelog files that the run created and an undo deletes. `files` and `bytes` are set once the run
    is done.
    """

    run: str
    procedure: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    time_millis: int
    table: str
    branch: str
    kind: TrashKind = TrashKind.REMOVAL
    state: TrashState = TrashState.OPEN
    earliest: int | None = None
    latest: int | None = None
    target: int | None = None
    created: tuple[str, ...] = ()
    files: int | None = None
    bytes: int | None = None

    def may_go(self, bound: int) -> bool:
        """Return whether the run may be deleted if those from before a time go.

        One whose undo was interrupted stays: the next undo completes it. One whose deletion was interrupted goes.
        """
        if self.state is TrashState.EMPTYING:
            return True
        return self.time_millis < bound and self.state is not TrashState.UNDOING

    def to_json(self) -> str:
        """Return the record as the text of its file."""
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=2, default=str)


class TrashPaths:
    """Paths of the trash of a table; branches share the trash of their table."""

    def __init__(self, table: Table) -> None:
        self.root = table.paths.root

    @property
    def directory(self) -> str:
        """Return the directory of all runs."""
        return f"{self.root}/.trash"

    def run(self, run: str) -> str:
        """Return the directory of a run."""
        return f"{self.directory}/{run}"

    def record(self, run: str) -> str:
        """Return the file that describes a run."""
        return f"{self.run(run)}/{_RECORD}"

    def files(self, run: str) -> str:
        """Return the directory below which the files of a run have their paths relative to the table."""
        return f"{self.run(run)}/{_FILES}"

    def kept(self, run: str, path: str) -> str | None:
        """Return where a run keeps a file of the table; None for a file outside of the table."""
        prefix = f"{self.root}/"
        return f"{self.files(run)}/{path[len(prefix) :]}" if path.startswith(prefix) else None

    def original(self, run: str, kept: str) -> str:
        """Return the path that a file of a run had."""
        return f"{self.root}/{kept[len(self.files(run)) + 1 :]}"


class TrashRun:
    """A run that takes files; nothing is written before it begins.

    A file whose path the run has taken already, which happens if a snapshot id is used again during a rollback, is
    deleted: an undo restores the first one.
    """

    def __init__(self, table: Table, record: TrashRecord, *, resumed: bool = False) -> None:
        self.record = record
        self._io: FileIO = table.file_io
        self._table = table
        self._paths = TrashPaths(table)
        self._lock = Lock()
        self._begun = self._resumed = resumed
        self._files = self._bytes = 0

    def begin(self, *, latest: int | None = None, target: int | None = None, created: Iterable[str] = ()) -> None:
        """Write the record, unless it exists; set the snapshots that are given, and add created files."""
        with self._lock:
            given = {name: i for name, i in (("latest", latest), ("target", target)) if i is not None}
            named = tuple(dict.fromkeys((*self.record.created, *created)))
            record = replace(self.record, created=named, **given)  # type: ignore[arg-type]
            if self._begun and record == self.record:
                return
            self._io.write(self._paths.record(record.run), record.to_json().encode())
            self._begun, self.record = True, record

    def move(self, path: str, size: int) -> bool:
        """Move a file of the table into the run; return False if it does not exist.

        Raises:
            UnsupportedError: the store cannot move a file of this size.
        """
        self.begin()
        kept = self._paths.kept(self.record.run, path)
        if kept is None:
            return self._io.delete(path)
        try:
            if not self._io.rename(path, kept):
                self._io.delete(path)  # taken already
        except FileNotFoundError:
            return False
        except UnsupportedError as e:
            raise UnsupportedError(
                f"The file {path} cannot be moved to the trash: {e.message}",
                hint="Call the procedure with trash => false, which deletes the files for good.",
            ) from e
        with self._lock:
            self._files, self._bytes = self._files + 1, self._bytes + size
        return True

    def finish(self, clock_millis: int) -> None:
        """Mark the run as done, or delete it if it has taken nothing; then delete the runs whose retention has ended.

        The procedure has done its work by then, so errors are ignored: a run that is still open can be undone too.
        """
        self.settle()
        with suppress(OSError, PaimonError):
            empty_expired(self._table, clock_millis)

    def settle(self) -> None:
        """Mark the run as done, or delete it if it has taken nothing; errors are ignored."""
        with suppress(OSError, PaimonError):
            if self._begun:
                self._settle()

    def _settle(self) -> None:
        run = self.record.run
        found = find_run(self._table, run)
        if found is not None and found.state in (TrashState.UNDOING, TrashState.EMPTYING):
            return  # an undo or a deletion has begun meanwhile, which ends the run
        if self._resumed or not self._files:
            self._files, self._bytes = size_of(self._table, run)
        if not self._files:
            self._io.delete_dir(self._paths.run(run))
            self._begun = False
            return
        self.record = replace(self.record, state=TrashState.DONE, files=self._files, bytes=self._bytes)
        self._io.write(self._paths.record(run), self.record.to_json().encode())


def new_record(
    table: Table,
    procedure: str,
    *,
    clock_millis: int,
    arguments: Mapping[str, Any] | None = None,
    kind: TrashKind = TrashKind.REMOVAL,
) -> TrashRecord:
    """Return the record of a run that begins now."""
    at = datetime.fromtimestamp(clock_millis / 1000, UTC)
    return TrashRecord(
        run=f"{at:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}",
        procedure=procedure,
        arguments=dict(arguments or {}),
        user=_user(),
        time_millis=clock_millis,
        table=table.name,
        branch=table.branch,
        kind=kind,
        earliest=table.snapshots.earliest_id(),
        latest=table.snapshots.latest_id(),
    )


@dataclass(frozen=True, slots=True)
class MalformedRun:
    """A run whose record cannot be read; the time is that of its name."""

    run: str
    time_millis: int
    error: CorruptTableError


def all_runs(table: Table) -> list[TrashRecord | MalformedRun]:
    """Return the runs in the trash of a table, newest first."""
    listed = table.file_io.list(TrashPaths(table).directory)
    names = sorted((s.name for s in listed if s.is_dir and RUN_NAME.fullmatch(s.name)), reverse=True)
    found: list[TrashRecord | MalformedRun] = []
    for name in names:
        try:
            record = find_run(table, name)
        except CorruptTableError as e:
            found.append(MalformedRun(name, _named_time(name), e))
            continue
        found.extend([record] if record is not None else [])
    return sorted(found, key=lambda r: (r.time_millis, r.run), reverse=True)


def _named_time(run: str) -> int:
    try:
        return int(datetime.strptime(run[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0


def runs(table: Table) -> list[TrashRecord]:
    """Return the runs in the trash of a table, newest first, without malformed ones."""
    return [r for r in all_runs(table) if isinstance(r, TrashRecord)]


def find_run(table: Table, run: str) -> TrashRecord | None:
    """Return a run, or None if the trash of the table does not have it.

    Raises:
        CorruptTableError: its record is malformed.
    """
    if not RUN_NAME.fullmatch(run):
        return None
    path = TrashPaths(table).record(run)
    data = read_if_there(table.file_io, path)
    return None if data is None else _parsed(data, path, run)


def run_files(table: Table, run: str) -> Iterator[FileStatus]:
    """Yield the files of a run, with their paths in the trash."""
    return table.file_io.list_recursive(TrashPaths(table).files(run))


def size_of(table: Table, run: str) -> tuple[int, int]:
    """Return the number of files of a run, and their size."""
    files = size = 0
    for status in run_files(table, run):
        files, size = files + 1, size + status.size
    return files, size


def unfinished_rollback(table: Table, target: int) -> TrashRun | None:
    """Return the run of an interrupted rollback of the table's branch to a snapshot, to take what is left.

    The hint of the rollback names it. It may be done: another commit has completed the rollback, and the rollback has
    begun again. Commits call this, so a malformed record counts as none.
    """
    name = table.snapshots.rollback_run()
    try:
        record = None if name is None else find_run(table, name)
    except CorruptTableError:
        return None
    if record is None or (record.kind, record.target, record.branch) != (TrashKind.ROLLBACK, target, table.branch):
        return None
    return None if record.state is TrashState.EMPTYING else TrashRun(table, record, resumed=True)


def unfinished_removal(table: Table, procedure: str, directories: Collection[str]) -> TrashRun | None:
    """Return the newest run of an interrupted procedure that has files of one of some directories, to take the rest."""
    paths = TrashPaths(table)
    for record in runs(table) if directories else ():
        if record.state is not TrashState.OPEN or (record.procedure, record.branch) != (procedure, table.branch):
            continue
        kept = tuple(f"{paths.kept(record.run, d)}/" for d in directories)
        if any(status.path.startswith(kept) for status in run_files(table, record.run)):
            return TrashRun(table, record, resumed=True)
    return None


def asides(table: Table, run: str) -> list[str]:
    """Return the snapshots that the undo of a purge has moved to the directory of its run, by id."""
    return sorted(s.path for s in table.file_io.list(TrashPaths(table).run(run)) if _ASIDE.fullmatch(s.name))


def empty_expired(table: Table, clock_millis: int) -> list[str]:
    """Delete the runs whose retention has ended, and those whose deletion was interrupted; return them."""
    bound = clock_millis - table.options.trash_retention_ms
    return [r.run for r in runs(table) if r.may_go(bound) and delete_run(table, r.run)]


def delete_run(table: Table, run: str, *, even_undoing: bool = False) -> bool:
    """Delete a run for good; return whether it was there.

    First it is marked, so that an interrupted deletion cannot be undone in part.

    Args:
        table: the table.
        run: the run, whose record is read anew.
        even_undoing: also if an undo of it has begun; otherwise it stays.

    Raises:
        ConflictError: an interrupted undo has left snapshots in it that may be commits.
    """
    record = find_run(table, run)
    if record is None or (record.state is TrashState.UNDOING and not even_undoing):
        return False
    if record.state is TrashState.UNDOING and asides(table, run):
        raise ConflictError(
            f"The run '{run}' of {record.procedure} cannot be deleted: an interrupted undo has left a snapshot in "
            f"{TrashPaths(table).run(run)} that may be a commit.",
            hint=f"Undo it: CALL sys.undo('{table.name}', '{run}').",
            kind=ErrorKind.UNDO_IMPOSSIBLE,
        )
    mark(table, record, TrashState.EMPTYING)
    table.file_io.delete_dir(TrashPaths(table).files(run))
    forget(table, record)
    return True


def forget(table: Table, record: TrashRecord) -> None:
    """Delete the record of a run without files."""
    paths = TrashPaths(table)
    table.file_io.delete(paths.record(record.run))
    table.file_io.delete_dir(paths.run(record.run))
    table.file_io.delete_empty_dir(paths.directory)


def mark(table: Table, record: TrashRecord, state: TrashState) -> TrashRecord:
    """Write another state of a run, and return its record."""
    if record.state is state:
        return record
    record = replace(record, state=state)
    table.file_io.write(TrashPaths(table).record(record.run), record.to_json().encode())
    return record


def _parsed(data: bytes, path: str, run: str) -> TrashRecord:
    try:
        raw = json_object(data)
        if raw.pop("version") != _VERSION or raw["run"] != run or not all(map(_CREATED.fullmatch, raw["created"])):
            raise _malformed(path)
        raw["kind"], raw["state"] = TrashKind(raw["kind"]), TrashState(raw["state"])
        raw["created"] = tuple(raw["created"])
        ints = [
            raw["time_millis"],
            *(raw[k] for k in ("earliest", "latest", "target", "files", "bytes") if raw[k] is not None),
        ]
        if not all(type(n) is int for n in ints):
            raise _malformed(path)
        return TrashRecord(**raw)
    except (KeyError, TypeError, ValueError) as e:
        raise _malformed(path) from e


def _malformed(path: str) -> CorruptTableError:
    return CorruptTableError(
        f"{path} does not describe a run of the trash.",
        hint="Move its directory away. The files below it keep their paths relative to the table.",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""

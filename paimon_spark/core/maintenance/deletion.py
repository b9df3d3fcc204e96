"""Deletion of table files; all deletions go through `SafeDeleter`.

An operation passes in deletion candidates. `SafeDeleter` reads all protecting references, turns the candidates into a
plan (delete, or keep and why), and checks the references again right before it deletes. The second check reads only
manifests that the first has not read: manifests are immutable. A missing file is not an error, so an interrupted run
can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.maintenance.empty_directories import remove_empty_directories
from paimon_spark.core.maintenance.reachability import Reachability, ReadManifests
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.maintenance.trash_refs import kept_refs
from paimon_spark.core.metadata.lost_references import check_not_lost
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKey, RefKind, protecting_refs
from paimon_spark.core.metadata_io import yielded_in_parallel
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, EngineError, ErrorKind, PaimonError, StoreError

_T = TypeVar("_T")
DELETE = "delete"
KEEP = "keep"
WRITE = "write"
WARN = "warn"
_THREADS = 8
_READINGS = 20
"""How often protecting references are read again if one of them expires meanwhile."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action on one file: `action` is delete, keep, write or warn."""

    action: str
    path: str
    bytes: int
    reason: str
    kept_by: str | None = None

    @property
    def name(self) -> str:
        """Return the bare file name."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(slots=True)
class DeletionCandidates:
    """Files to delete if unreferenced, by path. An unknown size is None."""

    data: dict[str, tuple[int | None, str]] = field(default_factory=dict)
    metadata: dict[str, tuple[int | None, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """Files to delete, and files that are kept only by a tag, a branch or a changelog.

    `references` are the snapshot, tag and changelog files themselves. They are deleted first, so that no reference ever
    points to missing files, and are not checked against the protecting references. `future` are
    references that the operation will create.
    """

    data: tuple[Action, ...] = ()
    metadata: tuple[Action, ...] = ()
    references: tuple[Action, ...] = ()
    kept: tuple[Action, ...] = ()
    future: tuple[ProtectingRef, ...] = ()
    known: ReadManifests | None = field(default=None, compare=False, repr=False)

    @property
    def deletions(self) -> list[Action]:
        """Return all deletions in order."""
        return [*self.references, *self.data, *self.metadata]


@dataclass(frozen=True, slots=True)
class Deleted:
    """Number and size of the deleted files."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted(self.files + other.files, self.bytes + other.bytes)


class SafeDeleter:
    """Deletes unreferenced files of a table, or moves them to its trash.

    Args:
        table: the table.
        trash: the run of the trash that takes the files; without it they are deleted for good.
    """

    def __init__(self, table: Table, trash: TrashRun | None = None) -> None:
        self._table = table
        self._trash = trash
        self._io = table.file_io

    def plan(
        self,
        candidates: DeletionCandidates,
        *,
        removed_refs: Iterable[RefKey] = (),
        future: Iterable[ProtectingRef] = (),
        references: Sequence[Action] = (),
        look: bool = True,
    ) -> DeletionPlan:
        """Return a plan that keeps or deletes each candidate.

        Args:
            candidates: deletion candidates.
            removed_refs: protecting references that the operation removes.
            future: protecting references that the operation creates.
            references: the files of the removed references.
            look: read the status of each file, so that sizes are exact and missing files are left out.

        Raises:
            CorruptTableError: a protecting reference cannot be read; nothing may be deleted.
        """
        removed_refs, future = frozenset(removed_refs), tuple(future)
        data = self._actions(candidates.data, look=look)
        metadata = self._actions(candidates.metadata, look=look)
        known = ReadManifests(a.name for a in data)
        data, metadata = self._judge(data, metadata, removed_refs, future, known)
        return DeletionPlan(
            data=tuple(a for a in data if a.action == DELETE),
            metadata=tuple(a for a in metadata if a.action == DELETE),
            references=tuple(self.measure(references) if look else references),
            kept=tuple(a for a in (*data, *metadata) if a.action == KEEP),
            future=future,
            known=known,
        )

    def unreachable(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions whose files no snapshot, tag or changelog of any branch references.

        Those that the trash keeps of rollbacks and branches count, so that these can be undone.

        The kind of the files is unknown, so each name is looked up among both data and metadata files.

        Raises:
            CorruptTableError: a protecting reference cannot be read or is lost, or references keep changing.
        """
        check_not_lost(self._table)
        if not actions:
            return []
        names = {a.name for a in actions}

        def look() -> list[ProtectingRef]:
            return [*self._all_refs(), *kept_refs(self._table)]

        held = self._confirmed(look, lambda reach: reach.metadata_refs().keys() | reach.needed_names(names))
        return [a for a in actions if a.name not in held]

    def _confirmed(
        self,
        look: Callable[[], list[ProtectingRef]],
        ask: Callable[[Reachability], _T],
        known: ReadManifests | None = None,
    ) -> _T:
        """Return the result of `ask` for the references of `look`; retried if one of them expires meanwhile.

        Raises:
            CorruptTableError: a protecting reference cannot be read, or references keep changing.
        """
        there = look()
        for _ in range(_READINGS):
            try:
                return ask(Reachability(ManifestStore(self._table), there, known))
            except CorruptTableError as e:
                now = look()
                if e.kind is not ErrorKind.FILE_MISSING or now == there:
                    raise
                there = now
        raise CorruptTableError(
            f"The snapshots and tags of table {self._table.name} keep changing while their files are being read.",
            hint="Wait until other jobs that expire snapshots or delete tags are done, then try again.",
        )

    def _all_refs(self) -> list[ProtectingRef]:
        """Return all protecting references; a listing without the newest snapshot of the table is an error."""
        store = self._table.snapshots
        latest = store.latest_id()
        found = protecting_refs(self._table)
        own = {h.snapshot.id for h in found if h.kind is RefKind.SNAPSHOT and h.branch == self._table.branch}
        if latest is not None and latest not in own and store.exists(latest):
            raise CorruptTableError(
                f"The listing of {self._table.paths.snapshot_dir} does not show snapshot {latest}, which exists.",
                hint="Nothing was deleted. Wait until the store lists its files consistently, then try again.",
            )
        return found

    def delete_files(self, plan: DeletionPlan) -> Deleted:
        """Delete the data and metadata files of a plan after checking the protecting references again.

        A reference that the plan removes but a rollback has restored protects its files like any other. With
        `snapshot.clean-empty-directories`, directories that become empty are removed too.
        """
        data, metadata = self._judge(list(plan.data), list(plan.metadata), frozenset(), (), plan.known)
        done = self.delete(data) + self.delete(metadata)
        if self._table.options.cleans_empty_directories:
            remove_empty_directories(self._table, (a.path for a in (*data, *metadata) if a.action == DELETE))
        return done

    def delete_references(self, plan: DeletionPlan) -> Deleted:
        """Delete the snapshot, tag or changelog files of a plan one by one, in order."""
        return sum(map(self.delete_reference, plan.references), Deleted())

    def delete_reference(self, action: Action) -> Deleted:
        """Delete one snapshot, tag or changelog file."""
        return self._delete_one(action)

    def delete(self, actions: Sequence[Action]) -> Deleted:
        """Delete the files of all delete actions; a failure does not stop the others, a cancellation does.

        Raises:
            EngineError: some files could not be deleted.
            StatementCancelledError: the statement was cancelled.
        """
        going = [a for a in actions if a.action == DELETE]
        files = size = 0
        failure: PaimonError | None = None
        for done in yielded_in_parallel(self._tried, going, _THREADS):
            if isinstance(done, PaimonError):
                failure = failure or done
            else:
                files, size = files + done.files, size + done.bytes
            checkpoint()
        if failure is not None:
            raise failure
        return Deleted(files, size)

    def _tried(self, action: Action) -> Deleted | PaimonError:
        try:
            return self._delete_one(action)
        except PaimonError as e:
            return e

    def _delete_one(self, action: Action) -> Deleted:
        try:
            return Deleted(1, action.bytes) if self._removed(action) else Deleted()
        except OSError as e:
            if self._is_gone(action.path):
                return Deleted(1, action.bytes)
            if isinstance(e, StoreError):
                raise
            raise EngineError(
                f"The file {action.path} cannot be deleted: {e.strerror or e}.",
                hint="Check that this user may delete it and that it is a file, then run the statement again.",
                kind=ErrorKind.ENVIRONMENT,
            ) from e

    def _removed(self, action: Action) -> bool:
        if self._trash is None:
            return self._io.delete(action.path)
        return self._trash.move(action.path, action.bytes)

    def _is_gone(self, path: str) -> bool:
        """Return whether a file is known to be missing: the response of a deletion may be lost."""
        try:
            return not self._io.exists(path)
        except OSError:
            return False

    def _actions(self, proposed: dict[str, tuple[int | None, str]], *, look: bool) -> list[Action]:
        items = [Action(DELETE, path, size or 0, reason) for path, (size, reason) in proposed.items()]
        return self.measure(items) if look else items

    def measure(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions of existing files, with exact sizes."""
        return [a for a in yielded_in_parallel(self._measured, actions, _THREADS) if a is not None]

    def _measured(self, action: Action) -> Action | None:
        try:
            return replace(action, bytes=self._io.status(action.path).size)
        except FileNotFoundError:
            return None

    def _judge(
        self,
        data: list[Action],
        metadata: list[Action],
        removed_refs: frozenset[RefKey],
        future: tuple[ProtectingRef, ...],
        known: ReadManifests | None,
    ) -> tuple[list[Action], list[Action]]:
        if not data and not metadata:
            return data, metadata

        def look() -> list[ProtectingRef]:
            return [*(h for h in protecting_refs(self._table) if h.key not in removed_refs), *future]

        def ask(reach: Reachability) -> tuple[list[Action], list[Action]]:
            kept = self._judged(metadata, reach.metadata_refs() if metadata else {})
            return self._judged(data, reach.data_refs({a.name for a in data})), kept

        return self._confirmed(look, ask, known)

    def _judged(self, actions: list[Action], held: dict[str, ProtectingRef]) -> list[Action]:
        """Mark protected files as kept, and omit those that a snapshot of the table's own branch references."""
        judged = []
        for action in actions:
            holder = held.get(action.name)
            if holder is None:
                judged.append(action)
            elif holder.kind is not RefKind.SNAPSHOT or holder.branch != self._table.branch:
                judged.append(replace(action, action=KEEP, kept_by=holder.label))
        return judged

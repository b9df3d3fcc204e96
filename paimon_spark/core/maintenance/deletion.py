"""The one door through which files of a table are deleted.

What an operation wants to delete comes in as proposals; `SafeDeleter` reads everything that still protects files,
turns the proposals into a plan (delete, or keep and by whom), and looks again right before it deletes: at who refers to
which manifests, and into those manifests that the first look has not read, for none ever changes. A file that is
already gone is no error, so a run that died half-way can simply be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_spark.core.maintenance.reachability import Reachability, ReadManifests
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import HolderKey, ProtectingRef, RefKind, protecting_refs
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, EngineError, ErrorKind, PaimonError, StoreError

_T = TypeVar("_T")
DELETE = "delete"
KEEP = "keep"
WRITE = "write"
WARN = "warn"
_THREADS = 8
_READINGS = 20
"""How often what protects files is read again when some of it expires meanwhile."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that an operation does to one file: `action` is delete, keep, write or warn."""

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
    """Files that somebody wants to delete; one path counts once. A size may be unknown (None)."""

    data: dict[str, tuple[int | None, str]] = field(default_factory=dict)
    metadata: dict[str, tuple[int | None, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What goes, and what would go if nothing but a tag, a branch or a changelog held it.

    `references` are the snapshot, tag and changelog files themselves; they go first, so that none ever points to files
    that are gone, and are not looked up among what protects files. `doomed` are the holders that these references stand
    for: they protect nothing any more. `future` are holders that the operation itself will create.
    """

    data: tuple[Action, ...] = ()
    metadata: tuple[Action, ...] = ()
    references: tuple[Action, ...] = ()
    kept: tuple[Action, ...] = ()
    doomed: frozenset[HolderKey] = frozenset()
    future: tuple[ProtectingRef, ...] = ()
    known: ReadManifests | None = field(default=None, compare=False, repr=False)

    @property
    def deletions(self) -> list[Action]:
        """Return everything that goes, in the order of deletion."""
        return [*self.references, *self.data, *self.metadata]


@dataclass(frozen=True, slots=True)
class Deleted:
    """How much was really deleted."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted(self.files + other.files, self.bytes + other.bytes)


class SafeDeleter:
    """Deletes files of a table that nothing reaches any more."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._io = table.file_io

    def plan(
        self,
        proposals: DeletionCandidates,
        *,
        doomed: Iterable[HolderKey] = (),
        future: Iterable[ProtectingRef] = (),
        references: Sequence[Action] = (),
        look: bool = True,
    ) -> DeletionPlan:
        """Decide about every proposed file.

        Args:
            proposals: the files that the operation no longer needs.
            doomed: holders that the operation removes.
            future: holders that the operation creates.
            references: the files of the doomed holders.
            look: ask the store for each file, so that sizes are exact and absent files are left out.

        Raises:
            CorruptTableError: something that protects files cannot be read; nothing may be deleted.
        """
        doomed, future = frozenset(doomed), tuple(future)
        data = self._actions(proposals.data, look=look)
        metadata = self._actions(proposals.metadata, look=look)
        known = ReadManifests(a.name for a in data)
        data, metadata = self._judge(data, metadata, doomed, future, known)
        return DeletionPlan(
            data=tuple(a for a in data if a.action == DELETE),
            metadata=tuple(a for a in metadata if a.action == DELETE),
            references=tuple(self.measure(references) if look else references),
            kept=tuple(a for a in (*data, *metadata) if a.action == KEEP),
            doomed=doomed,
            future=future,
            known=known,
        )

    def unreachable(self, actions: Sequence[Action]) -> list[Action]:
        """Return those of some deletions that nothing reaches: no snapshot, tag or changelog of any branch.

        Nobody says what kind of files they are, so each name is looked for among data and metadata.

        Raises:
            CorruptTableError: something that protects files cannot be read, or keeps changing.
        """
        if not actions:
            return []
        names = {a.name for a in actions}
        held = self._settled(
            self._all_holders, lambda reach: reach.metadata_holders().keys() | reach.data_holders(names).keys()
        )
        return [a for a in actions if a.name not in held]

    def _settled(
        self,
        look: Callable[[], list[ProtectingRef]],
        ask: Callable[[Reachability], _T],
        known: ReadManifests | None = None,
    ) -> _T:
        """Return what `ask` finds out of the holders that `look` gives; again where one of them expires meanwhile.

        Raises:
            CorruptTableError: something that protects files cannot be read, or keeps changing.
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
            f"The snapshots and tags of table {self._table.name} keep changing while their files are read.",
            hint="Wait until other jobs that expire snapshots or delete tags are done, then try again.",
        )

    def _all_holders(self) -> list[ProtectingRef]:
        """Return all holders, and refuse a listing that misses the newest snapshot of the table."""
        store = self._table.snapshots
        latest = store.latest_id()
        found = protecting_refs(self._table)
        own = {h.snapshot.id for h in found if h.kind is RefKind.SNAPSHOT and h.branch == self._table.branch}
        if latest is not None and latest not in own and store.exists(latest):
            raise CorruptTableError(
                f"The listing of {self._table.paths.snapshot_dir} does not show snapshot {latest}, which is there.",
                hint="Nothing is deleted by such a listing. Wait until the store shows its files, then try again.",
            )
        return found

    def delete_files(self, plan: DeletionPlan) -> Deleted:
        """Delete the data and metadata files of a plan, after looking again at what protects files now.

        A holder that the plan removes and that is there again, by a rollback, protects its files as any other.
        """
        data, metadata = self._judge(list(plan.data), list(plan.metadata), frozenset(), (), plan.known)
        return self.delete(data) + self.delete(metadata)

    def delete_references(self, plan: DeletionPlan) -> Deleted:
        """Delete the snapshot, tag or changelog files of a plan, one after the other in their order."""
        return sum(map(self.delete_reference, plan.references), Deleted())

    def delete_reference(self, action: Action) -> Deleted:
        """Delete one snapshot, tag or changelog file."""
        return self._delete_one(action)

    def delete(self, actions: Sequence[Action]) -> Deleted:
        """Delete the files of those actions that say so; what cannot be deleted does not keep the others.

        Raises:
            EngineError: some could not be deleted.
        """
        going = [a for a in actions if a.action == DELETE]
        if len(going) <= 1:
            return sum(map(self._delete_one, going), Deleted())
        with ThreadPoolExecutor(min(_THREADS, len(going))) as pool:
            done = list(pool.map(self._tried, going))
        for failure in (d for d in done if isinstance(d, PaimonError)):
            raise failure
        return sum((d for d in done if isinstance(d, Deleted)), Deleted())

    def _tried(self, action: Action) -> Deleted | PaimonError:
        try:
            return self._delete_one(action)
        except PaimonError as e:
            return e

    def _delete_one(self, action: Action) -> Deleted:
        try:
            return Deleted(1, action.bytes) if self._io.delete(action.path) else Deleted()
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

    def _is_gone(self, path: str) -> bool:
        """Return whether a file surely is not there: the answer of a deletion may get lost."""
        try:
            return not self._io.exists(path)
        except OSError:
            return False

    def _actions(self, proposed: dict[str, tuple[int | None, str]], *, look: bool) -> list[Action]:
        items = [Action(DELETE, path, size or 0, reason) for path, (size, reason) in proposed.items()]
        return self.measure(items) if look else items

    def measure(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions whose files exist, with their exact sizes."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return [a for a in pool.map(self._measured, actions) if a is not None]

    def _measured(self, action: Action) -> Action | None:
        try:
            return replace(action, bytes=self._io.status(action.path).size)
        except FileNotFoundError:
            return None

    def _judge(
        self,
        data: list[Action],
        metadata: list[Action],
        doomed: frozenset[HolderKey],
        future: tuple[ProtectingRef, ...],
        known: ReadManifests | None,
    ) -> tuple[list[Action], list[Action]]:
        if not data and not metadata:
            return data, metadata

        def look() -> list[ProtectingRef]:
            return [*(h for h in protecting_refs(self._table) if h.key not in doomed), *future]

        def ask(reach: Reachability) -> tuple[list[Action], list[Action]]:
            kept = self._judged(metadata, reach.metadata_holders() if metadata else {})
            return self._judged(data, reach.data_holders({a.name for a in data})), kept

        return self._settled(look, ask, known)

    def _judged(self, actions: list[Action], held: dict[str, ProtectingRef]) -> list[Action]:
        """Mark what is held. What a snapshot of the own branch still uses is no news and is left out."""
        judged = []
        for action in actions:
            holder = held.get(action.name)
            if holder is None:
                judged.append(action)
            elif holder.kind is not RefKind.SNAPSHOT or holder.branch != self._table.branch:
                judged.append(replace(action, action=KEEP, kept_by=holder.label))
        return judged

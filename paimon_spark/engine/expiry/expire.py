"""Snapshot expiry: planning the snapshots and files to delete, and deleting them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, WRITE, Action, Deleted, DeletionPlan, SafeDeleter
from paimon_spark.core.maintenance.expiry_candidates import ExpiryCandidates
from paimon_spark.core.maintenance.retention import RetentionRule, choose_end, least_expiring
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.refs import ProtectingRef, RefKey, RefKind, RefStore
from paimon_spark.core.metadata_io import create_once, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConfig:
    """Limits of the caller; None means the table's option. `older_than_millis` is in epoch milliseconds."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_millis: int | None = None
    max_deletes: int | None = None
    exact: bool = True
    """Read the status of each file while planning, so that sizes are exact and missing files are not listed."""
    patient: bool = False
    """Let what only its time lets expire stay until it is enough; see `least_expiring`."""


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """Snapshots from `begin` (inclusive) to `end` (exclusive) expire; none if the two are equal.

    `snapshots` are the expiring snapshots.
    """

    begin: int = 0
    end: int = 0
    files: DeletionPlan = field(default_factory=DeletionPlan)
    writes: tuple[Action, ...] = ()
    snapshots: tuple[Snapshot, ...] = field(default=(), compare=False, repr=False)

    @property
    def deletions(self) -> list[Action]:
        """Return all deletions in order."""
        return self.files.deletions

    @property
    def kept(self) -> list[Action]:
        """Return the expiring snapshots' files that are kept, with the reference that protects them."""
        return list(self.files.kept)

    @property
    def actions(self) -> list[Action]:
        """Return all actions."""
        return [*self.deletions, *self.writes, *self.kept]


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """The number of expired snapshots, and the number (including snapshot files) and size of deleted files."""

    count: int = 0
    files: int = 0
    bytes: int = 0


@translate_io_errors()
def plan_expire(
    table: Table, config: ExpireConfig, clock_millis: int, *, without: Collection[RefKey] = ()
) -> ExpirePlan:
    """Plan an expiry; nothing is changed.

    Args:
        table: the table.
        config: limits of the caller.
        clock_millis: current time.
        without: references that will be deleted before the execution.

    Raises:
        ArgumentError: the limits of `config` contradict each other or the table's options.
        CorruptTableError: a protecting reference or a consumer cannot be read.
    """
    rule = _rule(table, config, clock_millis).check()
    store = table.snapshots
    earliest, latest = store.earliest_id(), store.latest_id()
    if earliest is None or latest is None:
        return ExpirePlan()

    def time_of(snapshot_id: int) -> int | None:
        return _time(store.find(snapshot_id))

    least = least_expiring(rule, earliest, latest, _references(table, earliest, latest)) if config.patient else 1
    if least > 1 and (time_of(earliest + least) or 0) >= rule.older_than_millis:
        return ExpirePlan(earliest, earliest)
    end = choose_end(rule, earliest, latest, consumer_floor=_consumer_floor(table), time_of=time_of)
    if end < earliest + least:
        return ExpirePlan(earliest, earliest)
    ids = store.ids()
    end = min((i for i in ids if i >= end), default=latest)
    expiring = [s for s in (store.find(i) for i in ids if earliest <= i < end) if s is not None]
    last = store.find(end)
    if last is None or not expiring:
        return ExpirePlan(end, end)  # another expiry or a rollback came first
    return _plan_range(table, [*expiring, last], end, look=config.exact, without=without)


def _references(table: Table, earliest: int, latest: int) -> int:
    """Return the number of snapshots and long-lived changelogs."""
    decoupled = table.options.changelog_lifecycle_decoupled
    return latest - earliest + 1 + (len(RefStore.of(table).changelog_ids()) if decoupled else 0)


@uninterrupted()
@translate_io_errors()
def execute_expire(table: Table, plan: ExpirePlan, trash: TrashRun | None = None) -> ExpireResult:
    """Execute the plan. Files that have become protected since planning are kept; the others go to `trash`.

    Snapshot files are deleted first, from the oldest on, so that all listed snapshots are readable at every step. An
    interrupted expiry leaves unreferenced files, which `remove_orphan_files` deletes.

    Nothing is done if another expiry has already expired these snapshots, or if a rollback targets one of them.
    """
    store = table.snapshots
    if plan.end <= plan.begin or not store.exists(plan.end):
        return ExpireResult()
    deleter = SafeDeleter(table, trash)
    if trash is not None:
        trash.begin(created=[f"changelog-{ref.snapshot.id}" for ref in plan.files.future])
    _keep_changelogs(table, plan.files.future)
    references = Deleted()
    for action in plan.files.references:
        if (store.latest_hint() or 0) < plan.end and _rolled_back(table, plan.end):
            return _given_way(table, plan, references)
        references += deleter.delete_reference(action)
    if _rolled_back(table, plan.end):
        return _given_way(table, plan, references)
    if store.exists(plan.end):
        store.write_earliest_hint(plan.end)
    total: Deleted = references + deleter.delete_files(plan.files)
    return ExpireResult(references.files, total.files, total.bytes)


def _rolled_back(table: Table, end: int) -> bool:
    """Return whether a rollback targets, or has reached, a snapshot before `end`."""
    target = table.snapshots.rollback_target()
    if target is not None:
        return target < end
    if table.snapshots.exists(end):
        return False
    newest = max(table.snapshots.listed_ids(), default=0)
    return newest < end


def _given_way(table: Table, plan: ExpirePlan, deleted: Deleted) -> ExpireResult:
    """Stop because of a rollback, and restore its target if it was just deleted."""
    target = table.snapshots.latest_hint()
    for snapshot in plan.snapshots:
        if snapshot.id == target:
            create_once(table.file_io, table.paths.snapshot(snapshot.id), snapshot.to_json().encode())
    return ExpireResult(deleted.files, deleted.files, deleted.bytes)


def _plan_range(
    table: Table, snapshots: list[Snapshot], end: int, *, look: bool, without: Collection[RefKey]
) -> ExpirePlan:
    expiring = [s for s in snapshots if s.id < end]
    decoupled = table.options.changelog_lifecycle_decoupled
    expiry = ExpiryCandidates(table)
    for snapshot in snapshots[1:]:
        expiry.add_removed(snapshot)
    for snapshot in expiring:
        reason = f"only snapshot {snapshot.id} needs it"
        expiry.add_changelog(snapshot, reason)
        expiry.add_metadata(snapshot, reason, with_changelog=True)
    removed_refs = [ProtectingRef(RefKind.SNAPSHOT, table.branch, str(s.id), s) for s in expiring]
    future = [ProtectingRef(RefKind.CHANGELOG, table.branch, str(s.id), s) for s in expiring] if decoupled else []
    files = SafeDeleter(table).plan(
        expiry.candidates,
        removed_refs=[*(r.key for r in removed_refs), *without],
        future=future,
        references=[_snapshot_action(table, s) for s in expiring],
        look=look,
    )
    return ExpirePlan(expiring[0].id, end, files, _writes(table, future, end), tuple(expiring))


def _snapshot_action(table: Table, snapshot: Snapshot) -> Action:
    return Action(DELETE, table.paths.snapshot(snapshot.id), 0, f"snapshot {snapshot.id} expires")


def _writes(table: Table, future: list[ProtectingRef], end: int) -> tuple[Action, ...]:
    kept = [
        Action(
            WRITE, table.paths.changelog(h.snapshot.id), len(h.snapshot.to_json().encode()), "changelogs live longer"
        )
        for h in future
    ]
    hint = Action(WRITE, table.paths.earliest_hint, len(str(end)), f"snapshot {end} is the oldest now")
    return (*kept, hint)


def _keep_changelogs(table: Table, future: tuple[ProtectingRef, ...]) -> None:
    for holder in future:
        path = table.paths.changelog(holder.snapshot.id)
        table.file_io.write(path, holder.snapshot.to_json().encode())
    if future:
        newest = max(h.snapshot.id for h in future)
        table.file_io.write(f"{table.paths.changelog_dir}/LATEST", str(newest).encode("ascii"))


def _rule(table: Table, config: ExpireConfig, clock_millis: int) -> RetentionRule:
    options = table.options
    return retention_rule(
        config,
        retain_max=options.snapshot_num_retained_max,
        retain_min=options.snapshot_num_retained_min,
        older_than_millis=clock_millis - options.snapshot_time_retained_ms,
        max_deletes=options.snapshot_expire_limit,
    )


def retention_rule(
    config: ExpireConfig, *, retain_max: int, retain_min: int, older_than_millis: int, max_deletes: int
) -> RetentionRule:
    """Return the rule of an expiry: what `config` gives, and the limits of the table options otherwise.

    The newest snapshot always stays, so that a lower limit of 0 means 1.
    """
    if config.retain_max is not None:  # an explicit upper limit lowers the default lower limit
        retain_max = config.retain_max
        retain_min = max(min(retain_min, retain_max), 1)
    return RetentionRule(
        retain_max=retain_max,
        retain_min=retain_min if config.retain_min is None else config.retain_min or 1,
        older_than_millis=older_than_millis if config.older_than_millis is None else config.older_than_millis,
        max_deletes=max_deletes if config.max_deletes is None else config.max_deletes,
    )


def _consumer_floor(table: Table) -> int | None:
    if table.options.consumer_changelog_only:
        return None
    return min(RefStore.of(table).needed_snapshots().values(), default=None)


def _time(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.time_millis

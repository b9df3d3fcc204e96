"""Rollback as a new snapshot: an OVERWRITE whose content is that of an earlier snapshot or tag. The history stays."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.maintenance.rollback import find_target
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore, tag_files
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.tags import TagPlan, execute_tag, plan_pin
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind, FileKind, Operation
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class AsLatestPlan:
    """The latest snapshot now, the target, and the tag that protects the files of the target; None if it has one."""

    previous_id: int
    target: Snapshot
    pin: TagPlan | None = None
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_as_latest(
    table: Table, *, snapshot_id: int | None = None, tag: str | None = None, clock_millis: int
) -> AsLatestPlan:
    """Plan a rollback as a new snapshot; nothing is changed.

    Raises:
        ArgumentError: not exactly one of snapshot and tag is given.
        NotFoundError: the target does not exist, or the table has no snapshot.
        CorruptTableError: the manifests of the target cannot be read.
        UnsupportedError: the table has a feature that is not supported for writes.
    """
    if (snapshot_id is None) == (tag is None):
        raise ArgumentError("The rollback needs one target.", hint="Give either a snapshot id or the name of a tag.")
    latest = table.snapshots.latest()
    if latest is None:
        raise NotFoundError(
            f"Table {table.name} has no snapshot to roll back from.",
            hint="Write to it first.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    check_writable(table.effective_schema)
    target = find_target(table, snapshot_id=snapshot_id, tag=tag).snapshot
    if _change(ManifestStore(table), target, latest).is_empty:
        return AsLatestPlan(latest.id, target)
    pin = None
    if tag is None or RefStore.of(table).get_tag(tag).time_retained is not None:
        name = f"rollback-to-as-latest-{target.id}-{uuid.uuid4()}"
        pin = plan_pin(table, name, target, clock_millis=clock_millis)
    new = Action(WRITE, table.paths.snapshot(latest.id + 1), 0, f"content of snapshot {target.id}")
    return AsLatestPlan(latest.id, target, pin, (*(pin.actions if pin else ()), new))


@uninterrupted()
@translate_io_errors()
def execute_as_latest(table: Table, plan: AsLatestPlan) -> int:
    """Commit the snapshot; return its id, or that of the latest snapshot if that has this content already.

    The tag that protects the target is kept, because snapshots in between list its files as removed; it is deleted if
    the commit fails.
    """
    if not plan.actions:
        return plan.previous_id
    if plan.pin is not None:
        execute_tag(table, plan.pin)
    try:
        done = FileStoreCommit(table).commit_plan(
            lambda store, base: _change(store, plan.target, base),
            CommitKind.OVERWRITE,
            CommitMetadata(operation=Operation.OVERWRITE),
        )
    except OutcomeUnknownError:
        raise
    except (PaimonError, OSError):
        if plan.pin is not None:
            delete_best_effort(table.file_io, tag_files(table, plan.pin.name))
        raise
    return done.snapshot_ids[-1] if isinstance(done, Committed) else plan.previous_id


def _change(store: ManifestStore, target: Snapshot, base: Snapshot | None) -> Change:
    """Return the change from the content of `base` to that of `target`."""
    wanted, present = _live(store, target), _live(store, base)
    removed = [e.flipped() for key, e in present.items() if key not in wanted]
    added = [replace(e, kind=FileKind.ADD) for key, e in wanted.items() if key not in present]
    new_index = {e.file.file_name: e for e in store.index_entries(target)}
    old_index = {e.file.file_name: e for e in store.index_entries(base)}
    gone = [replace(e, kind=FileKind.DELETE) for name, e in old_index.items() if name not in new_index]
    come = [replace(e, kind=FileKind.ADD) for name, e in new_index.items() if name not in old_index]
    return Change(
        kind=CommitKind.OVERWRITE, entries=(*removed, *added), index_changes=(*gone, *come), readds_files=True
    )


def _live(store: ManifestStore, snapshot: Snapshot | None) -> dict[object, ManifestEntry]:
    metas = store.data_manifests(snapshot) if snapshot else []
    return {e.identity: e for e in live_entries(store, metas)}

"""Expiry of long-lived changelogs, which outlive their snapshots (docs/spec/semantics.md, E5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, Action, Deleted, DeletionPlan, SafeDeleter
from paimon_spark.core.maintenance.expiry_candidates import ExpiryCandidates
from paimon_spark.core.maintenance.retention import RetentionRule, choose_changelog_end, least_expiring
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.refs import RefKind, RefStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, ExpireResult, retention_rule
from paimon_spark.spec.snapshot import Snapshot

_NONE = -1


@dataclass(frozen=True, slots=True)
class ExpireChangelogsPlan:
    """The long-lived changelogs to expire, the oldest one that stays (None: none), and the files to delete."""

    ids: tuple[int, ...] = ()
    first_kept: int | None = None
    files: DeletionPlan = field(default_factory=DeletionPlan)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return all actions, and the files that other references protect."""
        return (*self.files.deletions, *self.files.kept)


@translate_io_errors()
def plan_expire_changelogs(
    table: Table, config: ExpireConfig, clock_millis: int, *, everything: bool = False
) -> ExpireChangelogsPlan:
    """Plan an expiry of long-lived changelogs; nothing is changed.

    Args:
        table: the table.
        config: limits of the caller; by default those of the table's changelog options.
        clock_millis: the current time.
        everything: expire all long-lived changelogs, whatever the limits and consumers.

    Raises:
        ArgumentError: the limits contradict each other.
        CorruptTableError: a protecting reference or a consumer cannot be read.
    """
    rule = _rule(table, config, clock_millis).check()
    refs, latest = RefStore.of(table), table.snapshots.latest_id()
    ids = refs.changelog_ids()
    if not ids or latest is None:
        return ExpireChangelogsPlan()
    end = ids[-1] + 1 if everything else _end(table, rule, ids, latest, patient=config.patient)
    found = [s for s in (refs.find_changelog(i) for i in ids if i < end) if s is not None]
    if not found:
        return ExpireChangelogsPlan()
    kept = [i for i in ids if i >= end]
    files = _files(table, found, look=config.exact)
    return ExpireChangelogsPlan(tuple(s.id for s in found), kept[0] if kept else None, files)


def _end(table: Table, rule: RetentionRule, ids: list[int], latest: int, *, patient: bool) -> int:
    """Return the exclusive end of the changelogs to expire."""
    refs, first = RefStore.of(table), ids[0]

    def time_of(changelog_id: int) -> int | None:
        return _time(refs.find_changelog(changelog_id))

    least = least_expiring(rule, first, latest, latest - first + 1) if patient else 1
    if least > 1 and (time_of(first + least - 1) or 0) >= rule.older_than_millis:
        return first
    floor = min(refs.needed_snapshots().values(), default=None)
    end = choose_changelog_end(rule, first, ids[-1], latest, consumer_floor=floor, time_of=time_of)
    return end if end >= first + least else first


def _files(table: Table, changelogs: list[Snapshot], *, look: bool) -> DeletionPlan:
    expiry = ExpiryCandidates(table)
    for changelog in changelogs:
        reason = f"only changelog {changelog.id} needs it"
        if changelog.changelog_manifest_list is not None:
            expiry.add_changelog(changelog, reason)
        else:
            expiry.add_added(changelog, reason)
        expiry.add_metadata(changelog, reason, with_changelog=True)
    references = [Action(DELETE, table.paths.changelog(s.id), 0, f"changelog {s.id} expires") for s in changelogs]
    return SafeDeleter(table).plan(
        expiry.candidates,
        removed_refs=[(str(RefKind.CHANGELOG), table.branch, str(s.id)) for s in changelogs],
        references=references,
        look=look,
    )


@uninterrupted()
@translate_io_errors()
def execute_expire_changelogs(table: Table, plan: ExpireChangelogsPlan, trash: TrashRun | None = None) -> ExpireResult:
    """Execute the plan: changelog files first, oldest first, then the files that nothing else references.

    The trash takes the files, if there is one.
    """
    if not plan.ids:
        return ExpireResult()
    deleter = SafeDeleter(table, trash)
    references: Deleted = deleter.delete_references(plan.files)
    directory = table.paths.changelog_dir
    if plan.first_kept is not None:
        table.file_io.write(f"{directory}/EARLIEST", str(plan.first_kept).encode("ascii"))
    else:
        table.file_io.delete(f"{directory}/EARLIEST")
        newest = max(RefStore.of(table).changelog_ids(), default=_NONE)
        table.file_io.write(f"{directory}/LATEST", str(newest).encode("ascii"))
    total = references + deleter.delete_files(plan.files)
    return ExpireResult(references.files, total.files, total.bytes)


def _rule(table: Table, config: ExpireConfig, clock_millis: int) -> RetentionRule:
    options = table.options
    return retention_rule(
        config,
        retain_max=options.changelog_num_retained_max,
        retain_min=options.changelog_num_retained_min,
        older_than_millis=clock_millis - options.changelog_time_retained_ms,
        max_deletes=options.snapshot_expire_limit,
    )


def _time(changelog: Snapshot | None) -> int | None:
    return None if changelog is None else changelog.time_millis

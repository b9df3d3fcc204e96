"""Procedures that roll a table back.

rollback_to, rollback, rollback_to_timestamp, rollback_to_watermark and rollback_to_as_latest.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.calls.trash import finish_run, trash_param, trash_request
from paimon_spark.core.maintenance.trash import TrashKind, TrashRun
from paimon_spark.core.metadata.time_travel import at_time
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.tag_times import last_to_watermark
from paimon_spark.engine.rollback import RollbackPlan, execute_rollback, plan_rollback
from paimon_spark.engine.rollback_as_latest import AsLatestPlan, execute_as_latest, plan_as_latest
from paimon_spark.engine.trash import open_run
from paimon_spark.errors import ArgumentError

_TAG_OR_SNAPSHOT = (
    PositionalOverload(("table", "tag"), doc="a string is the name of a tag, even if it consists of digits"),
    PositionalOverload(("table", "snapshot_id"), doc="a number is the id of a snapshot"),
)
_SNAPSHOT_ID = Param("snapshot_id", ParamType.BIGINT, "The snapshot to roll back to.", aliases=("snapshot",))
_TRASH = trash_param(default=True)
_PREVIOUS = Column("previous_snapshot_id", "bigint", "latest snapshot before the rollback", nullable=False)
_CURRENT = Column("current_snapshot_id", "bigint", "latest snapshot after the rollback", nullable=False)
_COLUMNS = (_PREVIOUS, _CURRENT)


@dataclass(frozen=True, slots=True)
class _Rollback:
    table: Table
    plan: RollbackPlan
    trash: TrashRun | None


def _planned(ctx: CallContext, args: Arguments, name: str, table: Table, plan: RollbackPlan) -> Plan[_Rollback]:
    request = trash_request(ctx, args, name, default=True, kind=TrashKind.ROLLBACK)
    return Plan(tuple(plan.actions), _Rollback(table, plan, open_run(table, request, target=plan.current_id)))


def _execute(ctx: CallContext, plan: Plan[_Rollback]) -> Report:
    """Roll back and report the latest snapshots before and after."""
    work = plan.payload
    done = execute_rollback(work.table, work.plan, work.trash)
    finish_run(ctx, work.trash)
    return Report(
        result_rows=[(done.previous_snapshot_id, done.current_snapshot_id)],
        status=DONE if plan.actions else NOTHING_TO_DO,
        snapshot_before=done.previous_snapshot_id,
        snapshot_after=done.current_snapshot_id,
        files_in=done.files,
        bytes_in=done.bytes,
        changed_tables=(work.table.name,) if plan.actions else (),
    )


@procedure(
    name="rollback_to",
    summary="Roll a table back to an earlier snapshot or a tag.",
    params=(
        TABLE,
        Param("tag", ParamType.STRING, "The tag to roll back to; takes precedence over `snapshot_id`."),
        _SNAPSHOT_ID,
        _TRASH,
    ),
    columns=_COLUMNS,
    forms=_TAG_OR_SNAPSHOT,
    example="CALL sys.rollback_to('default.T', 10);",
)
class RollbackTo:
    """Roll back to a snapshot or a tag. All newer snapshots, and the tags of newer snapshots, are removed.

    They go to the trash, from where `undo` restores them; with `trash => false` they are deleted. A rollback to a tag
    restores its snapshot if that has expired. Data files of the removed snapshots remain as orphans, and the schema
    does not change. A snapshot from before a REPLACE TABLE with another primary key or merge engine is refused.
    `EXPLAIN CALL …` lists exactly what would be removed.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rollback]:
        """Find the target and everything newer."""
        table = ctx.table(args.text("table"))
        plan = plan_rollback(table, snapshot_id=args.integer("snapshot_id"), tag=args.optional_text("tag"))
        return _planned(ctx, args, "rollback_to", table, plan)

    def execute(self, ctx: CallContext, plan: Plan[_Rollback]) -> Report:
        """Roll back."""
        return _execute(ctx, plan)


@procedure(
    name="rollback",
    summary="Roll a table back to an earlier snapshot or a tag.",
    params=(
        TABLE,
        Param("version", ParamType.STRING, "The id of a snapshot, if it consists of digits, or the name of a tag."),
        Param("snapshot", ParamType.BIGINT, "The snapshot to roll back to.", aliases=("snapshot_id",)),
        Param("tag", ParamType.STRING, "The tag to roll back to."),
        _TRASH,
    ),
    columns=_COLUMNS,
    example="CALL sys.rollback(table => 'default.T', snapshot => 10);",
)
class Rollback:
    """Roll back to exactly one of version, snapshot and tag, as `rollback_to` does.

    All newer snapshots and the tags of newer snapshots are removed. Their data files remain as orphans, and the schema
    does not change.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rollback]:
        """Find the target and everything newer."""
        table = ctx.table(args.text("table"))
        version, snapshot, tag = args.optional_text("version"), args.integer("snapshot"), args.optional_text("tag")
        if sum(value is not None for value in (version, snapshot, tag)) != 1:
            raise ArgumentError(
                "The CALL of sys.rollback needs exactly one of the arguments version, snapshot and tag.",
                hint="Give one of them.",
            )
        if version is not None:
            is_id = version.isascii() and version.isdigit()
            snapshot, tag = (int(version), None) if is_id else (None, version)
        return _planned(ctx, args, "rollback", table, plan_rollback(table, snapshot_id=snapshot, tag=tag))

    def execute(self, ctx: CallContext, plan: Plan[_Rollback]) -> Report:
        """Roll back."""
        return _execute(ctx, plan)


@procedure(
    name="rollback_to_timestamp",
    summary="Roll a table back to its latest snapshot at a time.",
    params=(
        TABLE,
        Param("timestamp", ParamType.BIGINT, "The time, in milliseconds after 1970.", required=True),
        _TRASH,
    ),
    columns=_COLUMNS,
    example="CALL sys.rollback_to_timestamp('default.T', 1730292023000);",
)
class RollbackToTimestamp:
    """Roll back to the newest snapshot that was committed at or before a time, as `rollback_to` does."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rollback]:
        """Find the target and everything newer."""
        table = ctx.table(args.text("table"))
        target = at_time(table, args.integer("timestamp") or 0)
        return _planned(ctx, args, "rollback_to_timestamp", table, plan_rollback(table, snapshot_id=target.id))

    def execute(self, ctx: CallContext, plan: Plan[_Rollback]) -> Report:
        """Roll back."""
        return _execute(ctx, plan)


@procedure(
    name="rollback_to_watermark",
    summary="Roll a table back to its latest snapshot up to a watermark.",
    params=(
        TABLE,
        Param("watermark", ParamType.BIGINT, "The watermark, in milliseconds after 1970.", required=True),
        _TRASH,
    ),
    columns=_COLUMNS,
    example="CALL sys.rollback_to_watermark('default.T', 1730292023000);",
)
class RollbackToWatermark:
    """Roll back to the newest snapshot whose watermark is at most the given one, as `rollback_to` does.

    Snapshots without a watermark are skipped. If all watermarks are later, the CALL fails.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rollback]:
        """Find the target and everything newer."""
        table = ctx.table(args.text("table"))
        target = last_to_watermark(table, args.integer("watermark") or 0)
        return _planned(ctx, args, "rollback_to_watermark", table, plan_rollback(table, snapshot_id=target.id))

    def execute(self, ctx: CallContext, plan: Plan[_Rollback]) -> Report:
        """Roll back."""
        return _execute(ctx, plan)


@dataclass(frozen=True, slots=True)
class _AsLatest:
    table: Table
    plan: AsLatestPlan


@procedure(
    name="rollback_to_as_latest",
    summary="Give a table the content of an earlier snapshot or tag in a new snapshot, and keep its history.",
    params=(
        TABLE,
        Param("tag", ParamType.STRING, "The tag to roll back to."),
        _SNAPSHOT_ID,
    ),
    columns=(
        _PREVIOUS,
        Column("rolled_back_snapshot_id", "bigint", "snapshot whose content is restored", nullable=False),
        _CURRENT,
    ),
    forms=_TAG_OR_SNAPSHOT,
    example="CALL sys.rollback_to_as_latest('default.T', 10);",
)
class RollbackToAsLatest:
    """Commit an OVERWRITE snapshot with the content of exactly one of tag and snapshot. No row is read or rewritten.

    All snapshots and tags stay. Without a tag, the CALL creates one, `rollback-to-as-latest-<id>-<uuid>`, which
    protects the restored files; delete it once the snapshots in between have expired.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_AsLatest]:
        """Find the target."""
        table = ctx.table(args.text("table"))
        plan = plan_as_latest(
            table,
            snapshot_id=args.integer("snapshot_id"),
            tag=args.optional_text("tag"),
            clock_millis=ctx.clock_millis(),
        )
        return Plan(plan.actions, _AsLatest(table, plan))

    def execute(self, ctx: CallContext, plan: Plan[_AsLatest]) -> Report:
        """Commit the content of the target."""
        work = plan.payload
        current = execute_as_latest(work.table, work.plan)
        previous = work.plan.previous_id
        return Report(
            result_rows=[(previous, work.plan.target.id, current)],
            status=DONE if plan.actions else NOTHING_TO_DO,
            snapshot_before=previous,
            snapshot_after=current,
            changed_tables=(work.table.name,) if plan.actions else (),
        )

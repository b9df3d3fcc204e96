"""Procedures that expire the history of a table: expire_snapshots and expire_changelogs."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import CALL_OPTIONS, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.calls.trash import finish_run, trash_param, trash_request
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, ExpirePlan, execute_expire, plan_expire
from paimon_spark.engine.expiry.expire_changelogs import (
    ExpireChangelogsPlan,
    execute_expire_changelogs,
    plan_expire_changelogs,
)
from paimon_spark.engine.trash import open_run
from paimon_spark.spec.units import MAX_INT

_NEWEST = "newest"
_NEVER = -(1 << 63)


@dataclass(frozen=True, slots=True)
class _Expiry:
    table: Table
    latest_id: int | None
    plan: ExpirePlan
    trash: TrashRun | None


@procedure(
    name="expire_snapshots",
    summary="Remove old snapshots, and the files that only they reference.",
    params=(
        TABLE,
        Param(
            "retain_max",
            ParamType.INT,
            "Keep at most this many snapshots, whatever their age.",
            default="table option `snapshot.num-retained.max`",
        ),
        Param(
            "retain_min",
            ParamType.INT,
            "Keep at least this many snapshots; must not be more than `retain_max`.",
            default="table option `snapshot.num-retained.min`, or `retain_max` if that is less",
        ),
        Param(
            "older_than",
            ParamType.STRING,
            "Remove snapshots that were replaced before this time (`2024-05-14 10:00:00`, session time zone).",
            default="now minus table option `snapshot.time-retained`",
        ),
        Param(
            "max_deletes",
            ParamType.INT,
            "Remove at most this many snapshots.",
            default="table option `snapshot.expire.limit`",
        ),
        CALL_OPTIONS,
        trash_param(default=False),
    ),
    columns=(Column("deleted_snapshots_count", "int", "number of removed snapshots", nullable=False),),
    forms=(
        PositionalOverload(
            ("table", "retain_max"),
            name=_NEWEST,
            doc="keep the newest `retain_max` snapshots and remove all others, whatever their age",
        ),
    ),
    example="CALL sys.expire_snapshots('default.T', 2);",
)
class ExpireSnapshots:
    """Remove snapshots beyond the given limits, oldest first, and the files that nothing else references.

    A snapshot that a tag, a branch or a consumer needs is kept, and so is a file that another snapshot, tag or branch
    references; the plan (`EXPLAIN CALL`, `dry_run => true`) names what protects it. The latest snapshot is always kept.
    `retain_max` must not be less than a `retain_min` of the same CALL. Given alone, it also lowers the minimum of the
    table's options.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Expiry]:
        """Select the snapshots and collect the files to delete."""
        table = ctx.table(args.text("table"), args.table_options("options"))
        if args.form == _NEWEST and args.integer("retain_max") is not None:
            config = ExpireConfig(
                retain_max=args.integer("retain_max"), retain_min=1, older_than_millis=_NEVER, max_deletes=MAX_INT
            )
        else:
            config = _limits(ctx, args)
        plan = plan_expire(table, config, ctx.clock_millis())
        trash = open_run(table, trash_request(ctx, args, "expire_snapshots", default=False))
        return Plan(tuple(plan.actions), _Expiry(table, table.snapshots.latest_id(), plan, trash))

    def execute(self, ctx: CallContext, plan: Plan[_Expiry]) -> Report:
        """Delete the snapshots and their files."""
        work = plan.payload
        done = execute_expire(work.table, work.plan, work.trash)
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[(done.count,)],
            status=DONE if done.count else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.table.snapshots.latest_id(),
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=(work.table.name,) if done.count else (),
        )


@dataclass(frozen=True, slots=True)
class _ChangelogExpiry:
    table: Table
    latest_id: int | None
    plan: ExpireChangelogsPlan
    everything: bool
    trash: TrashRun | None


@procedure(
    name="expire_changelogs",
    summary="Remove old long-lived changelogs, and the files that only they reference.",
    params=(
        TABLE,
        Param(
            "retain_max",
            ParamType.INT,
            "Keep at most this many changelogs, those of snapshots included, whatever their age.",
            default="table option `changelog.num-retained.max`",
        ),
        Param(
            "retain_min",
            ParamType.INT,
            "Keep at least this many changelogs, those of snapshots included.",
            default="table option `changelog.num-retained.min`, or `retain_max` if that is less",
        ),
        Param(
            "older_than",
            ParamType.STRING,
            "Remove changelogs committed before this time (`2024-05-14 10:00:00`, session time zone).",
            default="now minus table option `changelog.time-retained`",
        ),
        Param(
            "max_deletes",
            ParamType.INT,
            "Remove at most this many changelogs.",
            default="table option `snapshot.expire.limit`",
        ),
        Param(
            "delete_all",
            ParamType.BOOLEAN,
            "Remove all long-lived changelogs, whatever the other arguments and consumers.",
            default="false",
        ),
        trash_param(default=False),
    ),
    columns=(Column("result", "string", "number of removed changelogs, or a note if all were removed"),),
    forms=(
        PositionalOverload(("table", "retain_max"), doc="a number in second position is `retain_max`"),
        PositionalOverload(("table", "delete_all"), doc="a boolean in second position is `delete_all`"),
    ),
    example="CALL sys.expire_changelogs('default.T', 100, 10);",
)
class ExpireChangelogs:
    """Remove long-lived changelogs beyond the given limits, oldest first, and the files that nothing else references.

    A changelog outlives its snapshot if one of the `changelog.*-retained` options of the table exceeds its `snapshot.*`
    counterpart. The newest long-lived changelog stays unless all are removed, and so do those that a consumer has yet
    to read.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_ChangelogExpiry]:
        """Select the changelogs and collect the files to delete."""
        table = ctx.table(args.text("table"))
        config = _limits(ctx, args)
        everything = args.flag("delete_all")
        plan = plan_expire_changelogs(table, config, ctx.clock_millis(), everything=everything)
        trash = open_run(table, trash_request(ctx, args, "expire_changelogs", default=False))
        return Plan(plan.actions, _ChangelogExpiry(table, table.snapshots.latest_id(), plan, everything, trash))

    def execute(self, ctx: CallContext, plan: Plan[_ChangelogExpiry]) -> Report:
        """Delete the changelogs and their files."""
        work = plan.payload
        done = execute_expire_changelogs(work.table, work.plan, work.trash)
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[("All long-lived changelogs are removed." if work.everything else str(done.count),)],
            status=DONE if done.count else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=(work.table.name,) if done.count else (),
        )


def _limits(ctx: CallContext, args: Arguments) -> ExpireConfig:
    """Return the limits of an expiry that are given."""
    return ExpireConfig(
        retain_max=args.integer("retain_max"),
        retain_min=args.integer("retain_min"),
        older_than_millis=args.millis("older_than", ctx.zone),
        max_deletes=args.integer("max_deletes"),
    )

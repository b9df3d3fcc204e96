"""Procedures for partitions: drop_partition, expire_partitions and mark_partition_done."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import CALL_OPTIONS, RESULT, SUCCESS, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.drop_partitions import DropPartitionsPlan, execute_drop_partitions, plan_drop_partitions
from paimon_spark.engine.expiry.partition_expiry import (
    PartitionExpiryPlan,
    execute_partition_expiry,
    plan_partition_expiry,
)
from paimon_spark.engine.health.findings import counted
from paimon_spark.engine.partition_done import MarkDonePlan, execute_mark_done, plan_mark_done
from paimon_spark.sqlparse.partitions import each_partition

_NONE = "No expired partitions."
_OPTIONS = {
    "expiration_time": "partition.expiration-time",
    "timestamp_formatter": "partition.timestamp-formatter",
    "timestamp_pattern": "partition.timestamp-pattern",
    "expire_strategy": "partition.expiration-strategy",
}


@dataclass(frozen=True, slots=True)
class _Expiry:
    latest_id: int | None
    plan: PartitionExpiryPlan


@procedure(
    name="expire_partitions",
    summary="Drop partitions that are too old.",
    params=(
        TABLE,
        Param(
            "expiration_time",
            ParamType.STRING,
            "The age at which a partition expires, as in `7 d`.",
            default="table option `partition.expiration-time`",
        ),
        Param(
            "timestamp_formatter",
            ParamType.STRING,
            "The format of the time, as in `yyyyMMdd`.",
            default="table option `partition.timestamp-formatter`, or `yyyy-MM-dd[ HH:mm:ss]`",
        ),
        Param(
            "timestamp_pattern",
            ParamType.STRING,
            "How the time is built from the partition columns, as in `$dt $hour:00:00`.",
            default="table option `partition.timestamp-pattern`, or the first partition column",
        ),
        Param(
            "expire_strategy",
            ParamType.STRING,
            "`values-time`: the time of the values; `update-time`: that of the newest file.",
            default="table option `partition.expiration-strategy`",
        ),
        Param(
            "max_expires",
            ParamType.INT,
            "Drop at most this many partitions, those with the smallest values.",
            default="table option `partition.expiration-max-num`",
        ),
        CALL_OPTIONS,
    ),
    columns=(Column("expired_partitions", "string", "a dropped partition, as in `dt=2024-05-14, hh=1`"),),
    example="CALL sys.expire_partitions('default.T', '7 d', 'yyyyMMdd');",
)
class ExpirePartitions:
    """Drop the partitions that are older than the expiration time, in OVERWRITE snapshots.

    Earlier snapshots still have the partitions; their files are deleted when these snapshots expire. Partitions whose
    values are null or cannot be parsed as a time do not expire by `values-time`; the status counts them. A table with
    `partition.expiration-time` also expires partitions after commits.

    A [chain table](../chain-tables.md) drops partitions of its snapshot branch with the deltas up to the next one, and
    keeps the newest such segment that is older than the expiration time. `max_expires` counts these of each chain; the
    snapshots of the report are those of the snapshot branch.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Expiry]:
        """Select the partitions."""
        given = {key: text for name, key in _OPTIONS.items() if (text := args.optional_text(name)) is not None}
        table = ctx.table(args.text("table"), {**args.table_options("options"), **given})
        plan = plan_partition_expiry(table, ctx.clock_millis(), at_most=args.integer("max_expires"))
        return Plan(plan.actions, _Expiry(plan.last.table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Expiry]) -> Report:
        """Drop the partitions."""
        work = plan.payload
        table = work.plan.table
        ids = execute_partition_expiry(work.plan)
        dropped = [(text.replace("/", ", "),) for text in work.plan.texts] if ids else []
        return Report(
            result_rows=dropped or [(_NONE,)],
            status=(DONE if dropped else NOTHING_TO_DO) + _timeless(work.plan.unparsed),
            snapshot_before=work.latest_id,
            snapshot_after=ids[-1] if ids else work.latest_id,
            files_in=work.plan.files if ids else 0,
            bytes_in=sum(a.bytes for a in plan.actions) if ids else 0,
            changed_tables=(table.name,) if ids else (),
        )


def _timeless(partitions: int) -> str:
    """Return what the status says about partitions without a time, which do not expire."""
    if not partitions:
        return ""
    return f": {counted(partitions, 'partition')} without a time in the values, not expired"


@dataclass(frozen=True, slots=True)
class _Drop:
    latest_id: int | None
    plan: DropPartitionsPlan


@procedure(
    name="drop_partition",
    summary="Drop partitions.",
    params=(
        TABLE,
        Param(
            "partitions",
            ParamType.STRING,
            "The partitions: `,` is AND, `;` is OR, as in `dt=2024-05-14,hh=1;dt=2024-05-15`. By position, also one "
            "argument for each.",
            required=True,
            aliases=("partition", "partition_specs"),
            variadic=True,
        ),
    ),
    columns=(SUCCESS,),
    example="CALL sys.drop_partition('default.T', 'dt=2024-05-14,hh=1', 'dt=2024-05-15');",
)
class DropPartition:
    """Drop all rows of partitions in one OVERWRITE snapshot, as ALTER TABLE … DROP PARTITION does.

    A partial specification, such as `dt=2024-05-14` in a table that is also partitioned by hour, drops all partitions
    with these values. A specification that matches no partition is not an error; the plan and the status report it.
    Earlier snapshots still have the partitions; their files are deleted when these snapshots expire.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Drop]:
        """Find the partitions."""
        table = ctx.table(args.text("table"))
        plan = plan_drop_partitions(table, each_partition(args.text("partitions"), table.schema, zone=ctx.zone))
        return Plan(plan.actions, _Drop(table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Drop]) -> Report:
        """Commit the drop."""
        work = plan.payload
        snapshot_id = execute_drop_partitions(work.plan)
        dropped = snapshot_id is not None
        missing = f": no partition {'; '.join(work.plan.missing)}" if work.plan.missing else ""
        return Report(
            result_rows=[("Success",)],
            status=(DONE if dropped else NOTHING_TO_DO) + missing,
            snapshot_before=work.latest_id,
            snapshot_after=snapshot_id if dropped else work.latest_id,
            files_in=work.plan.files if dropped else 0,
            bytes_in=work.plan.bytes if dropped else 0,
            changed_tables=(work.plan.table.name,) if dropped else (),
        )


@dataclass(frozen=True, slots=True)
class _MarkDone:
    table: Table
    plan: MarkDonePlan


@procedure(
    name="mark_partition_done",
    summary="Mark partitions as done by a success file.",
    params=(
        TABLE,
        Param(
            "partitions",
            ParamType.STRING,
            "The partitions: `,` is AND, `;` is OR, as in `dt=2024-05-14,hh=1;dt=2024-05-15`.",
            required=True,
            aliases=("partition",),
        ),
    ),
    columns=(RESULT,),
    example="CALL sys.mark_partition_done('default.T', 'dt=2024-05-14;dt=2024-05-15');",
)
class MarkPartitionDone:
    """Write a file `_SUCCESS` into the directory of each partition, for jobs that wait until a partition is complete.

    The file has the times of its creation and of the last CALL, in milliseconds. It is no part of a snapshot. A
    partition that is given by the values of all partition columns may be empty, which the status says. Of the actions
    in `partition.mark-done-action`, only `success-file` is supported.
    """

    status = f"`{DONE}`, with the partitions that have no data"

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_MarkDone]:
        """Find the partitions."""
        table = ctx.table(args.text("table"))
        plan = plan_mark_done(table, each_partition(args.text("partitions"), table.schema, zone=ctx.zone))
        return Plan(plan.actions, _MarkDone(table, plan))

    def execute(self, ctx: CallContext, plan: Plan[_MarkDone]) -> Report:
        """Write the success files."""
        work = plan.payload
        execute_mark_done(work.plan, ctx.clock_millis())
        latest = work.table.snapshots.latest_id()
        empty = f": no data in {', '.join(work.plan.empty)}" if work.plan.empty else ""
        return Report(
            result_rows=[(True,)],
            status=DONE + empty,
            snapshot_before=latest,
            snapshot_after=latest,
            files_out=len(work.plan.paths),
        )

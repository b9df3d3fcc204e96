"""Procedures for consumers, the progress of streaming readers: reset_consumer, clear_consumers."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import RESULT, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Param, ParamType, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.consumers import (
    ClearPlan,
    ConsumerPlan,
    execute_clear,
    execute_reset,
    plan_clear,
    plan_reset,
)


@dataclass(frozen=True, slots=True)
class _Reset:
    table: Table
    latest_id: int | None
    plan: ConsumerPlan


@procedure(
    name="reset_consumer",
    summary="Set the snapshot that a consumer reads next, or delete the consumer.",
    params=(
        TABLE,
        Param("consumer_id", ParamType.STRING, "The id of the consumer.", required=True, aliases=("consumerId",)),
        Param(
            "next_snapshot_id",
            ParamType.BIGINT,
            "The snapshot to read next; it or its long-lived changelog must exist.",
            default="the consumer is deleted",
            aliases=("nextSnapshotId",),
        ),
    ),
    columns=(RESULT,),
    example="CALL sys.reset_consumer('default.T', 'myid', 10);",
)
class ResetConsumer:
    """Set the snapshot that a streaming reader with this `consumer-id` reads next, or delete the consumer.

    Snapshots that a consumer has not yet read do not expire, so delete consumers that are no longer used. A consumer
    that does not exist is created; deleting a consumer that does not exist is not an error. `$consumers` lists all
    consumers. Each branch has its own: name the table `t$branch_b` for those of the branch `b`.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Reset]:
        """Find the snapshot and the consumer."""
        table = ctx.table(args.text("table"))
        plan = plan_reset(table, args.text("consumer_id"), args.integer("next_snapshot_id"))
        return Plan((plan.action,), _Reset(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Reset]) -> Report:
        """Write or delete the consumer's file."""
        work = plan.payload
        changed, written = execute_reset(work.table, work.plan), work.plan.next_snapshot is not None
        return Report(
            result_rows=[(True,)],
            status=DONE if changed else f"{NOTHING_TO_DO}: {work.plan.action.reason}",
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=int(changed and not written),
            files_out=int(written),
            bytes_in=work.plan.action.bytes if changed and not written else 0,
            bytes_out=work.plan.action.bytes if written else 0,
            changed_tables=(work.table.name,) if changed else (),
        )


@dataclass(frozen=True, slots=True)
class _Clearing:
    table: Table
    latest_id: int | None
    plan: ClearPlan


@procedure(
    name="clear_consumers",
    summary="Delete the consumers of a table whose ids match.",
    params=(
        TABLE,
        Param(
            "including_consumers",
            ParamType.STRING,
            "Regular expression that matches the whole id of a consumer to delete.",
            default="all consumers",
            aliases=("includingConsumers",),
        ),
        Param(
            "excluding_consumers",
            ParamType.STRING,
            "Regular expression that matches the whole id of a consumer to keep.",
            default="no consumer",
            aliases=("excludingConsumers",),
        ),
    ),
    columns=(RESULT,),
    example="CALL sys.clear_consumers('default.T', 'etl_.*', 'etl_daily');",
)
class ClearConsumers:
    """Delete consumers, so that the snapshots that they have not read can expire.

    A consumer that matches both expressions is kept. Each branch has its own consumers: name the table `t$branch_b` for
    those of the branch `b`.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Clearing]:
        """Find the consumers."""
        table = ctx.table(args.text("table"))
        plan = plan_clear(table, args.optional_text("including_consumers"), args.optional_text("excluding_consumers"))
        return Plan(plan.actions, _Clearing(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Clearing]) -> Report:
        """Delete the consumers."""
        work = plan.payload
        done = execute_clear(work.table, work.plan)
        return Report(
            result_rows=[(True,)],
            status=DONE if done else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=len(done),
            bytes_in=sum(a.bytes for a in plan.actions),
            changed_tables=(work.table.name,) if done else (),
        )

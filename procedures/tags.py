"""Procedures over tags: create_tag, replace_tag, rename_tag, delete_tag."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.core.maintenance.deletion import WRITE
from paimon_spark.core.table import Table
from paimon_spark.engine.tags import (
    DeleteTagsPlan,
    TagPlan,
    execute_delete_tags,
    execute_tag,
    plan_create_tag,
    plan_delete_tags,
    plan_rename_tag,
)
from paimon_spark.errors import ArgumentError, OptionError
from paimon_spark.spec.units import parse_duration_ms

_TABLE = Param("table", ParamType.STRING, "The table: `t`, `db.t` or `catalog.db.t`.", required=True)
_RESULT = Column("result", "boolean", "true; a failed CALL raises an error")
_SNAPSHOT = Param(
    "snapshot_id",
    ParamType.BIGINT,
    "The snapshot to tag.",
    default="the latest snapshot",
    aliases=("snapshot",),
)
_RETAINED = Param(
    "time_retained",
    ParamType.STRING,
    "How long the tag is retained, such as `7 d`.",
    default="table option `tag.default-time-retained`, otherwise forever",
)
_FORMS = (
    PositionalOverload(("table", "tag", "snapshot_id"), doc="a number in third position is the snapshot"),
    PositionalOverload(
        ("table", "tag", "time_retained"), doc="a string in third position is how long the tag is retained"
    ),
)


@dataclass(frozen=True, slots=True)
class _Creation:
    table: Table
    latest_id: int | None
    plan: TagPlan


@procedure(
    name="create_tag",
    summary="Create a tag, which protects a snapshot of a table from expiry.",
    params=(
        _TABLE,
        Param("tag", ParamType.STRING, "Name of the new tag.", required=True, aliases=("tag_name",)),
        _SNAPSHOT,
        _RETAINED,
    ),
    columns=(_RESULT,),
    forms=_FORMS,
    example="CALL sys.create_tag('default.T', 'my_tag', 10);",
)
class CreateTag:
    """Create a tag for a snapshot. Until the tag is deleted, the snapshot can be read with `VERSION AS OF`.

    An expired snapshot can be tagged while another tag protects it. If the tag already exists, the CALL fails.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the snapshot."""
        return _planned(ctx, args, replace=False)

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return _written(plan)


@procedure(
    name="replace_tag",
    summary="Point an existing tag to another snapshot, or change how long it is retained.",
    params=(
        _TABLE,
        Param("tag", ParamType.STRING, "Name of the tag.", required=True, aliases=("tag_name",)),
        _SNAPSHOT,
        _RETAINED,
    ),
    columns=(_RESULT,),
    forms=_FORMS,
    example="CALL sys.replace_tag('default.T', 'my_tag', 11);",
)
class ReplaceTag:
    """Overwrite a tag. Its creation time and retention are replaced too. If the tag does not exist, the CALL fails.

    Files that only the old tag protected become orphans.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the tag and the snapshot."""
        return _planned(ctx, args, replace=True)

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return _written(plan)


@procedure(
    name="rename_tag",
    summary="Rename a tag.",
    params=(
        _TABLE,
        Param("tag", ParamType.STRING, "Name of the tag.", required=True, aliases=("tagName", "tag_name")),
        Param(
            "target_tag",
            ParamType.STRING,
            "Its new name.",
            required=True,
            aliases=("targetTagName", "target_tag_name"),
        ),
    ),
    columns=(_RESULT,),
    example="CALL sys.rename_tag('default.T', 'my_tag', 'release');",
)
class RenameTag:
    """Rename a tag. The tag must exist, and no tag of the new name."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Check both names."""
        table = ctx.table(args.text("table"))
        plan = plan_rename_tag(table, args.text("tag"), args.text("target_tag"))
        return Plan(plan.actions, _Creation(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag under its new name, and delete the old one."""
        return _written(plan)


def _planned(ctx: CallContext, args: Arguments, *, replace: bool) -> Plan[_Creation]:
    """Plan writing a new tag, or replacing one."""
    retained = args.optional_text("time_retained")
    retained_ms = None if retained is None else _duration(retained)
    table = ctx.table(args.text("table"))
    plan = plan_create_tag(
        table,
        args.text("tag"),
        clock_millis=ctx.clock_millis(),
        snapshot_id=args.integer("snapshot_id"),
        time_retained_ms=retained_ms,
        replace=replace,
    )
    return Plan(plan.actions, _Creation(table, table.snapshots.latest_id(), plan))


def _written(plan: Plan[_Creation]) -> Report:
    """Write the tag of a plan."""
    work = plan.payload
    execute_tag(work.table, work.plan)
    written = [a for a in plan.actions if a.action == WRITE]
    return Report(
        result_rows=[(True,)],
        status=DONE,
        snapshot_before=work.latest_id,
        snapshot_after=work.latest_id,
        files_in=len(plan.actions) - len(written),
        files_out=len(written),
        bytes_out=sum(a.bytes for a in written),
        changed_tables=(work.table.name,),
    )


@dataclass(frozen=True, slots=True)
class _Deletion:
    table: Table
    latest_id: int | None
    plan: DeleteTagsPlan


@procedure(
    name="delete_tag",
    summary="Delete tags, and the files that only they protect.",
    params=(
        _TABLE,
        Param(
            "tag",
            ParamType.STRING,
            "Name of the tag, or several names separated by commas.",
            required=True,
            aliases=("tag_name",),
        ),
    ),
    columns=(_RESULT,),
    example="CALL sys.delete_tag('default.T', 'my_tag');",
)
class DeleteTag:
    """Delete one or more tags. A tag that does not exist is not an error; the plan warns about it.

    If the name of a missing tag resembles that of an existing one, the status says so after a colon.

    If the snapshot of a tag has expired, the files that nothing else references are deleted too.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Deletion]:
        """Find the tags and the files to delete."""
        table = ctx.table(args.text("table"))
        plan = plan_delete_tags(table, args.text("tag"))
        return Plan(tuple(plan.actions), _Deletion(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Deletion]) -> Report:
        """Delete the tags and their files."""
        work = plan.payload
        done, hints = execute_delete_tags(work.table, work.plan), work.plan.hints
        return Report(
            result_rows=[(True,)],
            status=(DONE if done.names else NOTHING_TO_DO) + (f": {' '.join(hints)}" if hints else ""),
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=(work.table.name,) if done.names else (),
        )


def _duration(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except OptionError as e:
        raise ArgumentError(f"In the argument 'time_retained': {e.message}", hint=e.hint) from None

"""Procedures for tags.

create_tag, create_tag_from_timestamp, create_tag_from_watermark, replace_tag, rename_tag, delete_tag, expire_tags and
trigger_tag_automatic_creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import RESULT, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.calls.trash import finish_run, trash_param, trash_request
from paimon_spark.core.maintenance.deletion import WRITE
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.automatic_tags import AutomaticTagsPlan, execute_automatic_tags, plan_automatic_tags
from paimon_spark.engine.refs.tag_times import first_from_time, first_from_watermark
from paimon_spark.engine.refs.tags import (
    DeleteTagsPlan,
    TagPlan,
    execute_delete_tags,
    execute_tag,
    expired_tags,
    plan_create_tag,
    plan_delete_tags,
    plan_rename_tag,
)
from paimon_spark.engine.trash import open_run
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.units import UNIT_OF_DURATIONS

_NEW_TAG = Param("tag", ParamType.STRING, "Name of the new tag.", required=True, aliases=("tag_name",))
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
    f"How long the tag is retained, such as `7 d`. {UNIT_OF_DURATIONS}",
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
        TABLE,
        _NEW_TAG,
        _SNAPSHOT,
        _RETAINED,
    ),
    columns=(RESULT,),
    forms=_FORMS,
    example="CALL sys.create_tag('default.T', 'my_tag', 10);",
)
class CreateTag:
    """Create a tag for a snapshot. Until the tag is deleted, the snapshot can be read with `VERSION AS OF`.

    An expired snapshot can be tagged while another tag protects it. If the tag already exists, the CALL fails.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the snapshot."""
        return _planned(ctx, args, ctx.table(args.text("table")), args.integer("snapshot_id"))

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return _written(plan)


@procedure(
    name="replace_tag",
    summary="Point an existing tag to another snapshot, or change how long it is retained.",
    params=(
        TABLE,
        Param("tag", ParamType.STRING, "Name of the tag.", required=True, aliases=("tag_name",)),
        _SNAPSHOT,
        _RETAINED,
    ),
    columns=(RESULT,),
    forms=_FORMS,
    example="CALL sys.replace_tag('default.T', 'my_tag', 11);",
)
class ReplaceTag:
    """Overwrite a tag. Its creation time and retention are replaced too. If the tag does not exist, the CALL fails.

    Files that only the old tag protected become orphans.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the tag and the snapshot."""
        return _planned(ctx, args, ctx.table(args.text("table")), args.integer("snapshot_id"), replacing=True)

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return _written(plan)


@procedure(
    name="rename_tag",
    summary="Rename a tag.",
    params=(
        TABLE,
        Param("tag", ParamType.STRING, "Name of the tag.", required=True, aliases=("tagName", "tag_name")),
        Param(
            "target_tag",
            ParamType.STRING,
            "Its new name.",
            required=True,
            aliases=("targetTagName", "target_tag_name"),
        ),
    ),
    columns=(RESULT,),
    example="CALL sys.rename_tag('default.T', 'my_tag', 'release');",
)
class RenameTag:
    """Rename a tag. The tag must exist, and no other tag of the new name.

    A CALL that was interrupted may leave the same tag under both names; the same CALL deletes the old one then.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Check both names."""
        table = ctx.table(args.text("table"))
        plan = plan_rename_tag(table, args.text("tag"), args.text("target_tag"))
        return Plan(plan.actions, _Creation(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag under its new name, and delete the old one."""
        return _written(plan)


_TAGGED = (
    Column("tagName", "string", "name of the tag"),
    Column("snapshot", "bigint", "the tagged snapshot"),
    Column("commit_time", "bigint", "when it was committed, in milliseconds after 1970"),
    Column("watermark", "string", "its watermark; `null` if it has none"),
)


@procedure(
    name="create_tag_from_timestamp",
    summary="Create a tag for the first snapshot from a time on.",
    params=(
        TABLE,
        _NEW_TAG,
        Param("timestamp", ParamType.BIGINT, "The time, in milliseconds after 1970.", required=True),
        _RETAINED,
    ),
    columns=_TAGGED,
    example="CALL sys.create_tag_from_timestamp('default.T', 'my_tag', 1724404318750, '1 d');",
)
class CreateTagFromTimestamp:
    """Create a tag for the first snapshot that was committed at or after a time, as `create_tag` does.

    An expired snapshot counts too while a tag protects it. If all snapshots are older, the CALL fails.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the snapshot."""
        table = ctx.table(args.text("table"))
        return _planned(ctx, args, table, first_from_time(table, args.integer("timestamp") or 0).id)

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return replace(_written(plan), result_rows=[_tagged(plan.payload.plan)])


@procedure(
    name="create_tag_from_watermark",
    summary="Create a tag for the first snapshot with at least the given watermark.",
    params=(
        TABLE,
        _NEW_TAG,
        Param("watermark", ParamType.BIGINT, "The watermark, in milliseconds after 1970.", required=True),
        _RETAINED,
    ),
    columns=_TAGGED,
    example="CALL sys.create_tag_from_watermark('default.T', 'my_tag', 1724404318750, '1 d');",
)
class CreateTagFromWatermark:
    """Create a tag for the first snapshot whose watermark is at least the given one, as `create_tag` does.

    Snapshots without a watermark are skipped. An expired snapshot counts too while a tag protects it. If there is no
    such snapshot, the CALL fails.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the snapshot."""
        table = ctx.table(args.text("table"))
        return _planned(ctx, args, table, first_from_watermark(table, args.integer("watermark") or 0).id)

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the tag."""
        return replace(_written(plan), result_rows=[_tagged(plan.payload.plan)])


def _planned(
    ctx: CallContext, args: Arguments, table: Table, snapshot_id: int | None, *, replacing: bool = False
) -> Plan[_Creation]:
    """Plan writing a new tag, or replacing one."""
    plan = plan_create_tag(
        table,
        args.text("tag"),
        clock_millis=ctx.clock_millis(),
        snapshot_id=snapshot_id,
        time_retained_ms=args.duration_ms("time_retained"),
        replace=replacing,
    )
    return Plan(plan.actions, _Creation(table, table.snapshots.latest_id(), plan))


def _tagged(plan: TagPlan) -> tuple[str, int, int, str]:
    """Return the row of a tag that was found by time or watermark."""
    tag = plan.tag
    if tag is None:  # a plan without `if_not_exists` has a tag
        raise AssertionError(plan.name)
    s: Snapshot = tag.snapshot
    return plan.name, s.id, s.time_millis, "null" if s.watermark is None else str(s.watermark)


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
    trash: TrashRun | None


@procedure(
    name="delete_tag",
    summary="Delete tags, and the files that only they protect.",
    params=(
        TABLE,
        Param(
            "tag",
            ParamType.STRING,
            "Name of the tag, or several names separated by commas.",
            required=True,
            aliases=("tag_name",),
        ),
        trash_param(default=False),
    ),
    columns=(RESULT,),
    example="CALL sys.delete_tag('default.T', 'my_tag');",
)
class DeleteTag:
    """Delete one or more tags. A tag that does not exist is not an error; the plan warns about it.

    If the name of a missing tag resembles that of an existing one, the status has a suggestion after a colon.

    If the snapshot of a tag has expired, the files that nothing else references are deleted too.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Deletion]:
        """Find the tags and the files to delete."""
        table = ctx.table(args.text("table"))
        plan = plan_delete_tags(table, args.text("tag"))
        trash = open_run(table, trash_request(ctx, args, "delete_tag", default=False))
        return Plan(tuple(plan.actions), _Deletion(table, table.snapshots.latest_id(), plan, trash))

    def execute(self, ctx: CallContext, plan: Plan[_Deletion]) -> Report:
        """Delete the tags and their files."""
        work = plan.payload
        done, hints = execute_delete_tags(work.table, work.plan, work.trash), work.plan.hints
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[(True,)],
            status=(DONE if done.names else NOTHING_TO_DO) + (f": {' '.join(hints)}" if hints else ""),
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=(work.table.name,) if done.names else (),
        )


@dataclass(frozen=True, slots=True)
class _Expiry:
    table: Table
    latest_id: int | None
    plan: DeleteTagsPlan | None
    trash: TrashRun | None


def _planned_expiry(table: Table, names: Mapping[str, str]) -> DeleteTagsPlan | None:
    return plan_delete_tags(table, names, because=names) if names else None


@procedure(
    name="expire_tags",
    summary="Delete the tags whose retention has ended, and those created before a time.",
    params=(
        TABLE,
        Param(
            "older_than",
            ParamType.STRING,
            "Delete also the tags created before this time (`2024-05-14 10:00:00`, session time zone).",
        ),
        trash_param(default=False),
    ),
    columns=(Column("expired_tags", "string", "a deleted tag, or a note that there is none"),),
    example="CALL sys.expire_tags('default.T', '2024-09-06 11:00:00');",
)
class ExpireTags:
    """Delete the tags whose retention has ended; with `older_than`, also those created before that time.

    A tag without a retention has no creation time; with `older_than`, the modification time of its file is used.
    If the snapshot of a tag has expired, the files that nothing else references are deleted too.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Expiry]:
        """Select the tags and the files to delete."""
        millis = args.millis("older_than", ctx.zone)
        table = ctx.table(args.text("table"))
        plan = _planned_expiry(table, expired_tags(table, ctx.clock_millis(), millis))
        trash = open_run(table, trash_request(ctx, args, "expire_tags", default=False))
        return Plan(tuple(plan.actions) if plan else (), _Expiry(table, table.snapshots.latest_id(), plan, trash))

    def execute(self, ctx: CallContext, plan: Plan[_Expiry]) -> Report:
        """Delete the tags and their files."""
        work = plan.payload
        names = work.plan.names if work.plan else ()
        done = execute_delete_tags(work.table, work.plan, work.trash) if work.plan else None
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[(name,) for name in names] or [("No expired tags.",)],
            status=DONE if names else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files if done else 0,
            bytes_in=done.bytes if done else 0,
            changed_tables=(work.table.name,) if names else (),
        )


@dataclass(frozen=True, slots=True)
class _Automatic:
    table: Table
    latest_id: int | None
    due: AutomaticTagsPlan
    expired: DeleteTagsPlan | None


@procedure(
    name="trigger_tag_automatic_creation",
    summary="Create the automatic tags that are due, and expire tags.",
    params=(TABLE,),
    columns=(RESULT,),
    example="CALL sys.trigger_tag_automatic_creation('default.T');",
)
class TriggerTagAutomaticCreation:
    """Create the tags that are due by `tag.automatic-creation`, as a commit to the table does.

    This is for tables whose writers create none: those with `write-only`, and tables without new commits. The modes are
    `process-time` and `watermark`; the tags of the mode `batch` belong to batch writes, which create them.
    Automatic tags beyond `tag.num-retained-max` are deleted, and, with `tag.time-expire-enabled`, the tags whose
    retention has ended.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Automatic]:
        """Select the tags to write and to delete."""
        table, now = ctx.table(args.text("table")), ctx.clock_millis()
        due = plan_automatic_tags(table, now)
        names = expired_tags(table, now) if table.options.flag("tag.time-expire-enabled") else {}
        expired = _planned_expiry(table, {n: why for n, why in names.items() if n not in due.excess.names})
        actions = (*due.actions, *(expired.actions if expired else ()))
        return Plan(actions, _Automatic(table, table.snapshots.latest_id(), due, expired))

    def execute(self, ctx: CallContext, plan: Plan[_Automatic]) -> Report:
        """Write and delete the tags."""
        work = plan.payload
        created = execute_automatic_tags(work.table, work.due)
        done = execute_delete_tags(work.table, work.expired) if work.expired else None
        sizes = {a.path: a.bytes for a in plan.actions if a.action == WRITE}
        deleted = [*work.due.excess.files.deletions, *(work.expired.files.deletions if work.expired else ())]
        changed = bool(created or deleted or done)
        return Report(
            result_rows=[(True,)],
            status=DONE if changed else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=len(deleted),
            files_out=len(created),
            bytes_in=sum(a.bytes for a in deleted),
            bytes_out=sum(sizes[work.table.paths.tag(name)] for name in created),
            changed_tables=(work.table.name,) if changed else (),
        )

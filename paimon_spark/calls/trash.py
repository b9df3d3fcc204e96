"""The argument `trash` of the procedures that remove files."""

from __future__ import annotations

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.procedure import Param, ParamType
from paimon_spark.core.maintenance.trash import TrashKind, TrashRun
from paimon_spark.engine.trash import TrashRequest

_NAME = "trash"


def trash_param(*, default: bool) -> Param:
    """Return the parameter; with `default`, files go to the trash unless its retention is 0."""
    return Param(
        _NAME,
        ParamType.BOOLEAN,
        "Move the files to the trash of the table, from where `sys.undo` restores them, instead of deleting them. By "
        "name only.",
        default="true, unless table option `trash.retention` is 0" if default else "false",
        named_only=True,
    )


def trash_request(
    ctx: CallContext, args: Arguments, procedure: str, *, default: bool, kind: TrashKind = TrashKind.REMOVAL
) -> TrashRequest:
    """Return what a CALL asks of the trash; `default` is that of its parameter."""
    return TrashRequest(
        procedure=procedure,
        wanted=args.flag(_NAME) if _NAME in args.values else None,
        default=default,
        clock_millis=ctx.clock_millis(),
        arguments={name: value for name, value in args.values.items() if name != _NAME},
        kind=kind,
    )


def finish_run(ctx: CallContext, run: TrashRun | None) -> None:
    """Complete the record of a run of the trash, if the CALL has one."""
    if run is not None:
        run.finish(ctx.clock_millis())

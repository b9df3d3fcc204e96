"""The help of an action, from its table and the descriptions of its procedure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from paimon_spark.calls.procedure import Procedure
from paimon_spark.calls.registry import installed_registry
from paimon_spark.cli.actions.arguments import FRAME
from paimon_spark.cli.actions.table import MERGE_ACTIONS, Action, Option, Target

_WIDTH = 120
_NAME_WIDTH = 34
_DELETE = "Delete the rows of a table that match a condition."
_LEFT_OUT = {Target.NONE: ("database", "table", "path"), Target.DATABASE_NAME: ("table", "path")}
_EXITS = """Exit status: 0 done, 1 failed, 2 wrong command line, 3 nothing to do (with --nothing_to_do_exits_3). Dashes
and underscores in names are the same. On a terminal, destructive actions ask for confirmation; elsewhere, as in cron,
they run at once, and only purge_files needs --yes.
"""


def help_text(action: Action) -> str:
    """Return the help of an action."""
    procedure = installed_registry().get(action.procedure) if action.procedure else None
    summary = procedure.summary if procedure else _DELETE
    usage = f"usage: paimon-spark {action.name} {_usage(action)}"
    lines = [*textwrap.wrap(usage, _WIDTH, subsequent_indent="    ", break_on_hyphens=False), "", summary]
    if procedure and procedure.name != action.name:
        lines[-1] += f" It calls the procedure {procedure.name}."
    own = [o for o in action.options if not o.refused]
    if own:
        lines += ["", "options:", *_described(own, procedure)]
    if action.option("merge_actions"):
        lines += ["", *_wrapped(f"{', '.join(MERGE_ACTIONS)}. {_MERGE}", "merge actions:")]
    lines += ["", "options of every action:", *_described(frame_of(action), None)]
    where = "on Spark" if action.on_spark else "in this process, or on Spark with --master or --spark_conf"
    lines += ["", f"It runs {where}.", _EXITS]
    return "\n".join(lines)


_MERGE = (
    "Each needs its values, if it has some. A delete without a condition deletes all such rows; upsert and delete "
    "together need a condition each."
)


def frame_of(action: Action) -> list[Option]:
    """Return the options of every action that this one has."""
    own = {o.name for o in action.options} | set(_LEFT_OUT.get(action.target, ()))
    if not action.has_dry_run:
        own.add("dry_run")
    if action.on_spark:
        own.add("threads")
    return [o for o in FRAME if o.name not in own]


def _usage(action: Action) -> str:
    places = {
        Target.TABLE: "(--path PATH | [--warehouse W] --database D --table T)",
        Target.DATABASE: "[--warehouse W] --database D [--table T]",
        Target.NAMES: "[--warehouse W] [--database D [--table T]]",
        Target.OPTIONAL: "[--warehouse W] [--database D [--table T]]",
        Target.DATABASE_NAME: "[--warehouse W] --database D",
        Target.NONE: "[--warehouse W]",
    }
    needed = [f"--{o.name} VALUE" for o in action.options if o.required]
    return " ".join([places[action.target], *needed, "[OPTION …]"])


def _described(options: list[Option], procedure: Procedure | None) -> Iterator[str]:
    names = {o.sets: o.name for o in options if "_" in o.sets}
    for option in options:
        meaning = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), _meaning(option, procedure))
        yield from _wrapped(meaning, f"  --{option.name}" + ("" if option.flag else " VALUE"))


def _meaning(option: Option, procedure: Procedure | None) -> str:
    param = procedure.find(option.sets) if procedure and not option.doc else None
    text = option.doc or (param.doc if param else "")
    text += f" Default: {param.default}." if param and param.default and not option.required else ""
    text += " Required." if option.required else ""
    return text + (" Repeatable." if option.join and "repeatable" not in text and "several" not in text else "")


def _wrapped(text: str, head: str) -> list[str]:
    left = _NAME_WIDTH if head else 0
    lines = textwrap.wrap(" ".join(text.split()), _WIDTH - left, break_on_hyphens=False) or [""]
    if len(head) >= left and head:
        return [head, *(" " * left + line for line in lines)]
    return [f"{head:<{left}}{lines[0]}", *(" " * left + line for line in lines[1:])]

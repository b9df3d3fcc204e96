"""Procedures without an action in Paimon, as actions named after their parameters."""

from __future__ import annotations

from paimon_spark.calls.procedure import Param, ParamType, Procedure
from paimon_spark.calls.registry import installed_registry
from paimon_spark.cli.actions.arguments import spelled
from paimon_spark.cli.actions.table import ACTIONS, DESTROYS, NEED_YES, Action, Option, Target

_TABLE, _DATABASE = "table", "database"
LEFT_OUT = frozenset({"help", "running", "cancel"})
"""Procedures without an action: CALLs are listed and cancelled within their own application."""
_FAIL_ON_DEFECTS = Option(
    "fail_on_defects", flag=True, doc="Exit with status 1, not 0, if there are defects.", fails_on_rows=True
)
_OF_ACTIONS = {"verify": (_FAIL_ON_DEFECTS,)}
"""Options of actions that are no parameters of their procedures."""


def derived_actions() -> dict[str, Action]:
    """Return the actions by name."""
    named = [p for p in installed_registry() if p.name not in ACTIONS and p.name not in LEFT_OUT]
    return {p.name: derived(p) for p in named}


def derived(procedure: Procedure) -> Action:
    """Return a procedure as an action."""
    table = next((p for p in procedure.params if p.name == _TABLE), None)
    apart = table is not None and any(p.name == _DATABASE for p in procedure.params)
    named = (_TABLE, _DATABASE) if apart else (_TABLE,)
    options = tuple(_option(p) for p in procedure.params if p.name not in named and p.type is not ParamType.MAP)
    target = Target.NONE if table is None else Target.TABLE if table.required else Target.OPTIONAL
    target = Target.NAMES if apart else target
    return Action(
        procedure.name,
        procedure.name,
        options + _OF_ACTIONS.get(procedure.name, ()),
        target,
        destroys=DESTROYS.get(procedure.name, ""),
        needs_yes=procedure.name in NEED_YES,
        has_dry_run=not procedure.read_only,
    )


def _option(param: Param) -> Option:
    join = ";" if param.variadic or param.name.startswith("partition") else "," if param.name == "options" else ""
    return Option(spelled(param.name), param.name, param.required, join, param.type is ParamType.BOOLEAN)

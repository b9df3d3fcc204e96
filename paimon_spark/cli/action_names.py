"""Finds the action of a name: one of Paimon's, or a procedure under its own name."""

from __future__ import annotations

from paimon_spark.calls.procedure import Param, ParamType, Procedure
from paimon_spark.calls.refusals import REFUSED
from paimon_spark.cli.action_arguments import spelled
from paimon_spark.cli.action_table import ACTIONS, CAPTURES, DESTROYS, INSISTS, Action, Option, Target
from paimon_spark.errors import UnsupportedError, UsageError, did_you_mean

COMMANDS = ("call", "completion", "env", "selftest", "spark-sql", "sql", "submit", "thriftserver")
"""What the command does besides actions."""
_TABLE = "table"


def is_action(word: str) -> bool:
    """Return whether the first word of a command line is to be taken for an action."""
    return not word.startswith("-") and word not in COMMANDS


def action_of(name: str) -> Action:
    """Return the action with a name in any spelling.

    Raises:
        UnsupportedError: it is an action of Paimon that is not supported.
        UsageError: there is no such action.
    """
    wanted = spelled(name)
    refusal = CAPTURES.get(wanted) or (REFUSED.get(wanted) if wanted in ACTIONS else None)
    if refusal is not None:
        raise UnsupportedError(
            f"The action '{wanted}' of Apache Paimon is not supported: {refusal.why}.", hint=refusal.instead
        )
    if wanted in ACTIONS:
        return ACTIONS[wanted]
    derived = derived_actions()
    if wanted in derived:
        return derived[wanted]
    hint = did_you_mean(wanted, [*ACTIONS, *derived, *COMMANDS])
    raise UsageError(f"There is no action or command '{name}'.", hint=f"{hint} See paimon-spark --help.".strip())


def derived_actions() -> dict[str, Action]:
    """Return the procedures that no action of Paimon calls, as actions with the names of their parameters."""
    from paimon_spark.calls.registry import installed_registry  # loads the procedures

    named = [p for p in installed_registry() if p.name not in ACTIONS and p.name != "help"]
    return {p.name: derived(p) for p in named}


def derived(procedure: Procedure) -> Action:
    """Return a procedure as an action."""
    table = next((p for p in procedure.params if p.name == _TABLE), None)
    options = tuple(_option(p) for p in procedure.params if p is not table and p.type is not ParamType.MAP)
    target = Target.NONE if table is None else Target.TABLE if table.required else Target.OPTIONAL
    return Action(
        procedure.name,
        procedure.name,
        options,
        target,
        destroys=DESTROYS.get(procedure.name, ""),
        insists=procedure.name in INSISTS,
    )


def _option(param: Param) -> Option:
    join = ";" if param.variadic or param.name.startswith("partition") else "," if param.name == "options" else ""
    return Option(spelled(param.name), param.name, param.required, join, param.type is ParamType.BOOLEAN)

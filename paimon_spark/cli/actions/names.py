"""Finds the action of a name: one of Paimon's, or a procedure under its own name."""

from __future__ import annotations

from paimon_spark.calls.refusals import REFUSED
from paimon_spark.cli.actions.arguments import spelled
from paimon_spark.cli.actions.table import ACTIONS, CAPTURES, Action
from paimon_spark.errors import UnsupportedError, UsageError, did_you_mean

COMMANDS = ("call", "completion", "doctor", "env", "selftest", "spark-sql", "sql", "submit", "thriftserver")
"""The commands that are not actions."""

_OF_APPLICATIONS = {"running": "", "cancel": "'call-7'"}


def is_action(word: str) -> bool:
    """Return whether the first word of a command line names an action."""
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
    if wanted in _OF_APPLICATIONS:
        raise UsageError(
            f"The procedure '{wanted}' is not an action: it lists only the CALLs of its own Spark application.",
            hint=f"Write CALL sys.{wanted}({_OF_APPLICATIONS[wanted]}) in a session of the application.",
        )
    from paimon_spark.cli.actions.derived import derived_actions  # loads the procedures

    derived = derived_actions()
    if wanted in derived:
        return derived[wanted]
    hint = did_you_mean(wanted, [*ACTIONS, *derived, *COMMANDS])
    raise UsageError(f"There is no action or command '{name}'.", hint=f"{hint} See paimon-spark --help.".strip())

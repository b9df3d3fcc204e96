"""The CALL of an action."""

from __future__ import annotations

from paimon_spark.calls.procedure import NAMESPACE
from paimon_spark.cli.actions.arguments import Request
from paimon_spark.spec.quoted_text import quoted_name, sql_value

_ESCAPES = str.maketrans({"$": "\\u0024", ";": "\\u003B"})
"""Characters to escape: of Spark's variables, and of the end of a statement."""


def call_statement(request: Request) -> str:
    """Return the CALL of an action, in the action's catalog."""
    values = {name: sql_value(value).translate(_ESCAPES) for name, value in request.arguments.items()}
    arguments = ", ".join(f"{quoted_name(name)} => {value}" for name, value in values.items())
    return f"CALL {quoted_name(request.catalog)}.{NAMESPACE}.{request.action.procedure}({arguments})"

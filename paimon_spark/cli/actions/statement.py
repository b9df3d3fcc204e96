"""The CALL of an action."""

from __future__ import annotations

from paimon_spark.calls.procedure import NAMESPACE
from paimon_spark.cli.actions.arguments import Request, quoted_name

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024", ";": "\\u003B"})
"""Characters to escape: of the end of a literal, of Spark's variables, and of the end of a statement."""


def call_statement(request: Request) -> str:
    """Return the CALL of an action, in the action's catalog."""
    arguments = ", ".join(f"{quoted_name(name)} => {_literal(value)}" for name, value in request.arguments.items())
    return f"CALL {quoted_name(request.catalog)}.{NAMESPACE}.{request.action.procedure}({arguments})"


def _literal(value: object) -> str:
    if not isinstance(value, str):
        return str(value).upper()
    return "'" + value.translate(_ESCAPES) + "'"

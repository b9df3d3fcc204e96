"""Parsing of CALL statements into `CallStatement`."""

from __future__ import annotations

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.dialect import CallNode, CallStatement, parse_statements
from paimon_spark.sqlparse.literals import Literal

__all__ = ["CallStatement", "Literal", "parse_call"]


def parse_call(text: str) -> CallStatement:
    """Parse one ``[EXPLAIN] CALL [catalog.]sys.name(…)``; a trailing ``;`` and comments are allowed.

    Raises:
        SqlSyntaxError: `text` is not a CALL, or an argument is not a literal; the message has line and column.
    """
    trees = parse_statements(text)
    if len(trees) != 1:
        raise SqlSyntaxError(
            f"Expected one CALL statement, found {len(trees)} statements.", hint="Send one statement at a time."
        )
    if not isinstance(trees[0], CallNode):
        raise SqlSyntaxError("The statement is not a CALL.", hint="The form is CALL [catalog.]sys.procedure(…).")
    statement: CallStatement = trees[0].args["statement"]
    return statement

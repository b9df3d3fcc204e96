"""How far the script of a program has come, and which statement ended it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from paimon_spark.sqlparse.script import Statement

_UNCOUNTED = re.compile(r"(?i)(source\s|!|set\s+hive\.cli\.errors\.ignore)")
"""Statements that hide what an end belongs to: other scripts, commands of the shell, errors that end nothing."""
_NO_START = re.compile(r'(Exception in thread "main"|Error: |Unrecognized option|usage: )')


class Course:
    """Counts the statements of a script that have ended.

    Args:
        statements: the script.
        script: the name of its file, if it has one.
        alone: whether the program runs no other statements.
    """

    def __init__(self, statements: Sequence[Statement], script: str = "", *, alone: bool = True) -> None:
        self._statements = tuple(statements)
        self._script = script
        self._known = alone
        self._done = 0

    @property
    def running(self) -> Statement | None:
        """Return the statement that runs, if any is left."""
        return self._statements[self._done] if self._done < len(self._statements) else None

    def on_message(self, text: str) -> None:
        """Take a line that is no answer: it may say that the program did not come to any statement."""
        if self._done == 0 and _NO_START.match(text):
            self._known = False

    def on_end(self) -> None:
        """Take the end of a statement."""
        self._done += 1

    def told(self, status: int) -> str | None:
        """Return which of several statements a program that ended with `status` failed at, where that is known."""
        failed = self.running
        if status <= 0 or failed is None or len(self._statements) == 1 or not self._known:
            return None
        if any(_UNCOUNTED.match(s.text) for s in self._statements[: self._done]):
            return None
        return told_failure(failed, self._script)


def told_failure(statement: Statement, script: str) -> str:
    """Return where in a script, which may have no name, the statement is that failed, and how it begins."""
    where = f"line {statement.line} of {script}" if script else f"line {statement.line}"
    return f"Failed at {where}: {statement.headline}"

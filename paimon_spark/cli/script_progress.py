"""How far the script of a program has come, and where it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from paimon_spark.errors import StatementCancelledError
from paimon_spark.sqlparse.script import Statement

_UNCOUNTED = re.compile(r"(?i)(source\s|!|set\s+hive\.cli\.errors\.ignore)")
"""Statements that hide what an end belongs to: other scripts, commands of the shell, errors that end nothing."""
_NO_START = re.compile(r'(Exception in thread "main"|Error: |Unrecognized option|usage: )')
_POSITION = re.compile(r"; line (?P<analysis>\d+) pos \d+(;$)?|\s*\(line (?P<parser>\d+), pos(ition)? \d+\)")
"""Where in a statement Spark says that it is wrong: its analysis; its parser and its jobs."""
_PLAN = re.compile(r"; line \d+ pos \d+;$")
"""The end of what Spark's analysis says above the plan that it was analysing."""


class ScriptProgress:
    """Counts the statements of a script that have ended, and keeps where in the script the one that runs is wrong.

    Args:
        statements: the script.
        script: the name of its file, if it has one.
        text: the script itself.
        alone: whether the program runs no other statements.
        read_by_line: whether the program reads the script from a file: `spark-sql` leaves lines that begin with ``--``
            out then, and does not count them.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        script: str = "",
        *,
        text: str = "",
        alone: bool = True,
        read_by_line: bool = False,
    ) -> None:
        self._statements = tuple(statements)
        self._script = script
        self._lines = text.split("\n")
        self._read_by_line = read_by_line
        self._known = alone
        self._done = 0
        self._line: int | None = None

    @property
    def running(self) -> Statement | None:
        """Return the statement that runs, if any is left."""
        return self._statements[self._done] if self._done < len(self._statements) else None

    def on_message(self, text: str) -> str:
        """Take a line that is no answer; return it as it is to be printed.

        It may say that the program did not come to any statement. Where it says a position in the statement that runs,
        and `told` will say the line of the script, that line is the only one to be told: positions go.
        """
        if self._done == 0 and _NO_START.match(text):
            self._known = False
        if text.startswith("[SPARK_JOB_CANCELLED]"):
            return str(StatementCancelledError("The statement was cancelled.", hint="Run it again if need be."))
        found = _POSITION.search(text)
        if found is None or not self._tells:
            return text
        if self._line is None and self.running is not None:
            self._line = self._line_of(self.running, _number(found))
        return _POSITION.sub("", text)

    def on_end(self) -> None:
        """Take the end of a statement."""
        self._done += 1
        self._line = None

    def told(self, status: int) -> str | None:
        """Return where a program that ended with `status` failed, where that is known and worth telling."""
        failed = self.running
        if status <= 0 or failed is None or not self._tells:
            return None
        line = self._line or failed.line
        code = self._lines[line - 1].strip() if 0 < line <= len(self._lines) and line != failed.line else ""
        return told_failure(failed, self._script, line, code)

    @property
    def _tells(self) -> bool:
        """Whether `told` names the line of a failure. Of a single statement of the command line Spark does."""
        counted = not any(_UNCOUNTED.match(s.text) for s in self._statements[: self._done])
        return self._known and counted and (len(self._statements) > 1 or self._read_by_line)

    def _line_of(self, statement: Statement, number: int) -> int:
        """Return the line of the script that is line `number` of what the program was told to run."""
        seen = [
            line
            for line in range(statement.given_from, len(self._lines) + 1)
            if not (self._read_by_line and self._lines[line - 1].startswith("--"))
        ]
        return seen[number - 1] if 0 < number <= len(seen) else statement.line


class PlanFilter:
    """Leaves the plan out that Spark's analysis prints below an error, down to the next empty line."""

    def __init__(self) -> None:
        self._inside = False

    def passes(self, line: str) -> bool:
        """Take the next line; return whether it is to be printed."""
        if self._inside:
            self._inside = bool(line.strip())
            return False
        self._inside = _PLAN.search(line) is not None
        return True


def without_position(text: str) -> tuple[str, int | None]:
    """Return an error of Spark's without plan and position in its statement, and the line of that position."""
    shown = PlanFilter()
    lines = [line for line in text.strip().split("\n") if shown.passes(line)]
    found = next(filter(None, map(_POSITION.search, lines)), None)
    return "\n".join(_POSITION.sub("", line) for line in lines), _number(found) if found else None


def _number(position: re.Match[str]) -> int:
    return int(position["analysis"] or position["parser"])


def told_failure(statement: Statement, script: str, line: int | None = None, code: str = "") -> str:
    """Return where in a script, which may have no name, a statement failed, and the text there.

    Without a `line` it is the one that the statement begins on; `code` is the text of another one.
    """
    number = line or statement.line
    where = f"line {number} of {script}" if script else f"line {number}"
    return f"Failed at {where}: {code.removesuffix(';') or statement.headline}"

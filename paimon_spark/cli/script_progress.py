"""Tracks the progress of a script, and the location of a failure in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile

from paimon_spark.errors import StatementCancelledError
from paimon_spark.sqlparse.script import Statement

_UNCOUNTED = re.compile(r"(?i)(source\s|!|set\s+hive\.cli\.errors\.ignore)")
"""Statements that make counting unreliable: other scripts, shell commands, and errors that do not end the run."""
_NO_START = re.compile(r'(Exception in thread "main"|Error: |Unrecognized option|usage: )')
_POSITION = re.compile(r"; line (?P<analysis>\d+) pos \d+(;$)?|\s*\(line (?P<parser>\d+), (pos(ition)?|column) \d+\)")
"""Error positions in messages: of Spark's analyzer; of its parser and jobs, and of a CALL."""
_PLAN = re.compile(r"; line \d+ pos \d+;$")
"""The end of an analyzer message, followed by the analyzed plan."""


class ScriptProgress:
    """Counts the finished statements of a script, and records the error position in the running one.

    Args:
        statements: statements of the script.
        script: file name of the script, if any.
        text: text of the script.
        alone: whether the program runs no other statements.
        read_by_line: whether the program reads the script from a file: `spark-sql` then skips lines that begin with
            ``--`` and does not count them.
        trims: whether the program drops blank lines before a statement and does not count them, as Spark 4.3 does.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        script: str = "",
        *,
        text: str = "",
        alone: bool = True,
        read_by_line: bool = False,
        trims: bool = False,
    ) -> None:
        self._statements = tuple(statements)
        self._script = script
        self._lines = text.split("\n")
        self._read_by_line = read_by_line
        self._trims = trims
        self._known = alone
        self._done = 0
        self._line: int | None = None

    @property
    def running(self) -> Statement | None:
        """Return the running statement, if any is left."""
        return self._statements[self._done] if self._done < len(self._statements) else None

    def on_message(self, text: str) -> str:
        """Process a message line; return it as it is to be printed.

        A message may report that the program ran no statement. Error positions inside the running statement are removed
        if `failure_message` will report the line of the script instead.
        """
        if self._done == 0 and _NO_START.match(text):
            self._known = False
        if text.startswith("[SPARK_JOB_CANCELLED]"):
            return str(StatementCancelledError("The statement was cancelled.", hint="Run it again if needed."))
        found = _POSITION.search(text)
        if found is None or not self._reports_line:
            return text
        if self._line is None and self.running is not None:
            self._line = self._line_of(self.running, _number(found))
        return _POSITION.sub("", text)

    def on_end(self) -> None:
        """Count the end of a statement."""
        self._done += 1
        self._line = None

    def failure_message(self, status: int) -> str | None:
        """Return the location of a failure of a program that exited with `status`, if it is known and useful."""
        failed = self.running
        if status <= 0 or failed is None or not self._reports_line:
            return None
        line = self._line or failed.line
        code = self._lines[line - 1].strip() if 0 < line <= len(self._lines) and line != failed.line else ""
        return failure_at(failed, self._script, line, code)

    @property
    def _reports_line(self) -> bool:
        """Return whether `failure_message` names the line of a failure; Spark does for a single typed statement."""
        counted = not any(_UNCOUNTED.match(s.text) for s in self._statements[: self._done])
        return self._known and counted and (len(self._statements) > 1 or self._read_by_line)

    def _line_of(self, statement: Statement, number: int) -> int:
        """Return the script line of line `number` of the text that the program ran."""
        seen = [
            line
            for line in range(statement.given_from, len(self._lines) + 1)
            if not (self._read_by_line and self._lines[line - 1].startswith("--"))
        ]
        if self._trims:
            seen = list(dropwhile(lambda line: self._is_blank(line, statement), seen))
        return seen[number - 1] if 0 < number <= len(seen) else statement.line

    def _is_blank(self, line: int, statement: Statement) -> bool:
        """Return whether a line before a statement is blank, or has only the end of the previous statement."""
        text = self._lines[line - 1]
        rest = text.rpartition(";")[2] if line == statement.given_from else text
        return line != statement.line and not rest.strip()


class PlanFilter:
    """Filters out the plan that Spark's analyzer prints below an error, up to the next empty line."""

    def __init__(self) -> None:
        self._inside = False

    def passes(self, line: str) -> bool:
        """Process the next line; return whether it is to be printed."""
        if self._inside:
            self._inside = bool(line.strip())
            return False
        self._inside = _PLAN.search(line) is not None
        return True


def without_position(text: str) -> tuple[str, int | None]:
    """Return a Spark error without plan and position, and the line of that position."""
    shown = PlanFilter()
    lines = [line for line in text.strip().split("\n") if shown.passes(line)]
    found = next(filter(None, map(_POSITION.search, lines)), None)
    return "\n".join(_POSITION.sub("", line) for line in lines), _number(found) if found else None


def _number(position: re.Match[str]) -> int:
    return int(position["analysis"] or position["parser"])


def failure_at(statement: Statement, script: str, line: int | None = None, code: str = "") -> str:
    """Return the message with the script line of a failed statement, and its text.

    `line` defaults to the first line of the statement; `code` is the text of a later line.
    """
    number = line or statement.line
    where = f"line {number} of {script}" if script else f"line {number}"
    return f"Failed at {where}: {code.removesuffix(';') or statement.headline}"

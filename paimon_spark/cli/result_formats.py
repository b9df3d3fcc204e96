"""Results on the command line: as a table, tab-separated, as JSON or as CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.calls.report import FAILED, NOTHING_TO_DO
from paimon_spark.cli.render import record_lines, table_lines
from paimon_spark.core.maintenance.deletion import WARN
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.time_texts import time_text

WIDE = 120
_STATUS = "status"
_BREAKS = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CSV_QUOTED = frozenset(',"\r\n')
_IN_TABLES = str.maketrans(_BREAKS)
_IN_TSV = str.maketrans({"\\": "\\\\", **_BREAKS})
"""The characters that would end a cell or a line of text, escaped."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns, as (name, type), and rows of a result; a plan has no status."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    is_plan: bool = False

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [name for name, _ in self.columns]

    @property
    def is_idle(self) -> bool:
        """Return whether there was nothing to do: the status may say why, and a plan may warn."""
        if self.is_plan:
            return all(row[0] == WARN for row in self.rows)
        if _STATUS not in self.names:
            return not self.rows
        return all(state == NOTHING_TO_DO or state.startswith(f"{NOTHING_TO_DO}:") for state in self._states)

    @property
    def has_failed(self) -> bool:
        """Return whether a table failed, in a procedure that continues with the next table."""
        return FAILED in self._states

    @property
    def _states(self) -> set[str]:
        """Return the statuses in the rows; a row of totals has none."""
        if _STATUS not in self.names:
            return set()
        at = self.names.index(_STATUS)
        return {row[at] for row in self.rows if row[at] is not None}


def printed(answer: Answer, form: str) -> list[str]:
    """Return the lines of a result.

    For a plan without actions, the table format prints a sentence.
    """
    if form == "json":
        rows = [dict(zip(answer.names, map(_plain, row), strict=True)) for row in answer.rows]
        return [json.dumps(rows, default=str, indent=2)]
    if form == "csv":
        return [",".join(map(_csv_cell, row)) for row in [answer.names, *answer.rows]]
    escapes = _IN_TSV if form == "tsv" else _IN_TABLES
    cells = [[_text(v, "NULL").translate(escapes) for v in row] for row in answer.rows]
    if form == "tsv":
        return ["\t".join(row) for row in [answer.names, *cells]]
    if not answer.rows and answer.is_plan:
        return [NOTHING_TO_DO]
    table = table_lines([answer.names, *cells])
    return record_lines(answer.names, cells[0]) if len(cells) == 1 and len(table[1]) > WIDE else table


def _text(value: object, missing: str) -> str:
    if value is None:
        return missing
    value = _plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _csv_cell(value: object) -> str:
    """Return a cell as RFC 4180 has it; empty text is quoted, which tells it from NULL."""
    text = _text(value, "")
    quoted = value is not None and (not text or not _CSV_QUOTED.isdisjoint(text))
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _plain(value: object) -> object:
    """Return a value, or the text of a time in the zone of this machine."""
    if isinstance(value, Timestamp):
        return time_text(value.millis, None, fraction=True)
    return value

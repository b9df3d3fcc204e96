"""The result of an action as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.calls.report import NOTHING_TO_DO
from paimon_spark.cli.render import record_lines, table_lines

WIDE = 120
_STATUS = "status"


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
        """Return whether there was nothing to do."""
        if self.is_plan or _STATUS not in self.names:
            return not self.rows
        at = self.names.index(_STATUS)
        return all(row[at] == NOTHING_TO_DO for row in self.rows)


def printed(answer: Answer, form: str) -> list[str]:
    """Return the lines of an answer.

    A plan without actions has no rows; the table then has a sentence.
    """
    if form == "json":
        return [json.dumps([dict(zip(answer.names, row, strict=True)) for row in answer.rows], default=str, indent=2)]
    if form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([answer.names, *([_text(v, "") for v in row] for row in answer.rows)])
        return [out.getvalue().removesuffix("\n")]
    rows = [[_text(v, "NULL") for v in row] for row in answer.rows]
    if form == "tsv":
        return ["\t".join(row) for row in [answer.names, *rows]]
    if not answer.rows and answer.is_plan:
        return [NOTHING_TO_DO]
    table = table_lines([answer.names, *rows])
    return record_lines(answer.names, rows[0]) if len(rows) == 1 and len(table[1]) > WIDE else table


def _text(value: object, missing: str) -> str:
    if value is None:
        return missing
    return str(value).lower() if isinstance(value, bool) else str(value)

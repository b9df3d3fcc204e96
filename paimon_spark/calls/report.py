"""What a procedure did, in rows: Paimon's own columns first, then what really happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DONE = "done"
UPGRADED = "upgraded"
"""Files were moved to another level, and none was rewritten."""
NOTHING_TO_DO = "nothing to do"
DRY_RUN = "dry run"
FAILED = "failed"

REPORT_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("status", "string", "`done`, or `nothing to do` when the table was already as asked for"),
    ("snapshot_before", "bigint", "latest snapshot before the CALL"),
    ("snapshot_after", "bigint", "latest snapshot after the CALL"),
    ("files_in", "bigint", "files taken: merged, moved to another level, or deleted"),
    ("files_out", "bigint", "files given back: written, or moved to another level as they are"),
    ("bytes_in", "bigint", "bytes of the files merged or deleted"),
    ("bytes_out", "bigint", "bytes of the files written"),
    ("rows", "bigint", "rows in the data files given back"),
    ("duration_ms", "bigint", "how long the CALL took"),
)
"""(name, type, meaning) of the columns that follow Paimon's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Outcome of a procedure: the rows of its own columns, and the names of the tables that it changed."""

    result_rows: Sequence[tuple[Any, ...]]
    status: str = DONE
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    changed_tables: tuple[str, ...] = ()


def report_rows(report: Report, duration_ms: int) -> list[tuple[Any, ...]]:
    """Return the own rows, each followed by the report."""
    tail = (
        report.status,
        report.snapshot_before,
        report.snapshot_after,
        report.files_in,
        report.files_out,
        report.bytes_in,
        report.bytes_out,
        report.rows,
        duration_ms,
    )
    return [(*row, *tail) for row in report.result_rows]

"""Report of an executed procedure: Paimon's result columns, then snapshots, files, bytes, rows and duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.table import Table

DONE = "done"
UPGRADED = "upgraded"
"""Files were moved to another level; none was rewritten."""
NOTHING_TO_DO = "nothing to do"
DRY_RUN = "dry run"
FAILED = "failed"

STATUS = f"`{DONE}`, or `{NOTHING_TO_DO}` if no change was needed"
REPORT_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("status", "string", STATUS),
    ("snapshot_before", "bigint", "latest snapshot before the CALL"),
    ("snapshot_after", "bigint", "latest snapshot after the CALL"),
    ("files_in", "bigint", "input files: merged, moved to another level, or deleted"),
    ("files_out", "bigint", "output files: written, or moved to another level unchanged"),
    ("bytes_in", "bigint", "size of the files merged or deleted, in bytes"),
    ("bytes_out", "bigint", "size of the files written, in bytes"),
    ("rows", "bigint", "rows in the output data files"),
    ("duration_ms", "bigint", "duration of the CALL in milliseconds"),
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
    job: Job | None = None


def metadata_report(table: Table, actions: Sequence[Action], row: tuple[Any, ...]) -> Report:
    """Return the report of a CALL that wrote the metadata files of its plan, if any, and committed no snapshot."""
    latest = table.snapshots.latest_id()
    return Report(
        result_rows=[row],
        status=DONE if actions else NOTHING_TO_DO,
        snapshot_before=latest,
        snapshot_after=latest,
        files_out=len(actions),
        bytes_out=sum(a.bytes for a in actions),
        changed_tables=(table.name,) if actions else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A compaction that the Spark session repeats as long as it runs: `CALL sys.compact` with these arguments."""

    name: str
    table: str
    values: Mapping[str, Any]


def report_rows(report: Report, duration_ms: int) -> list[tuple[Any, ...]]:
    """Return the result rows, each followed by the report columns."""
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

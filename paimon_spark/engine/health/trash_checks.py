"""What the trash of a table takes, and the runs whose retention has ended."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.core.maintenance.trash import TrashState
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, counted
from paimon_spark.engine.trash import ListedRun, list_runs


def check_trash(e: Examined) -> Iterator[Finding]:
    """Yield what the trash holds, and what of it `empty_trash` deletes."""
    listed = [r for r in list_runs(e.table) if isinstance(r, ListedRun)]
    gone = [r for r in listed if r.expires_millis < e.now and r.record.state is not TrashState.UNDOING]
    size = sum(r.bytes for r in gone)
    if gone:
        yield e.finding(
            Severity.WARNING,
            Code.EXPIRED_TRASH,
            f"the retention of {counted(len(gone), 'run')} of the trash has ended ({size} bytes)",
            call("empty_trash", table=e.sql_name),
            gain_bytes=size,
            gain_files=sum(r.files for r in gone),
        )
    if len(listed) > len(gone):
        kept = sum(r.bytes for r in listed) - size
        runs = counted(len(listed) - len(gone), "run")
        yield e.finding(Severity.INFO, Code.TRASH, f"the trash keeps {runs} for an undo ({kept} bytes)")

"""What the trash of a table takes, and the runs whose retention has ended."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.core.maintenance.trash import MalformedRun, TrashState
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, counted
from paimon_spark.engine.trash import ListedRun, list_runs


def check_trash(e: Examined) -> Iterator[Finding]:
    """Yield what the trash holds, what of it `empty_trash` deletes, and the runs that no CALL deletes."""
    every = list_runs(e.table)
    bound = e.now - e.table.options.trash_retention_ms
    listed = [r for r in every if isinstance(r, ListedRun)]
    gone = [r for r in listed if r.record.may_go(bound)]
    kept = [r for r in listed if not r.record.may_go(bound)]
    if gone:
        size = sum(r.bytes for r in gone)
        yield e.finding(
            Severity.WARNING,
            Code.EXPIRED_TRASH,
            f"{_ended(gone)} ({size} bytes)",
            call("empty_trash", table=e.sql_name),
            gain_bytes=size,
            gain_files=sum(r.files for r in gone),
        )
    if kept:
        runs, size = counted(len(kept), "run"), sum(r.bytes for r in kept)
        yield e.finding(Severity.INFO, Code.TRASH, f"the trash keeps {runs} for an undo ({size} bytes)")
    for run in every:
        if isinstance(run, MalformedRun):
            yield e.finding(
                Severity.WARNING,
                Code.TRASH,
                f"the run '{run.run}' of the trash can neither be undone nor deleted by a CALL: {run.error}",
            )


def _ended(gone: list[ListedRun]) -> str:
    begun = sum(r.record.state is TrashState.EMPTYING for r in gone)
    texts = []
    if begun < len(gone):
        texts.append(f"the retention of {counted(len(gone) - begun, 'run')} of the trash has ended")
    if begun:
        texts.append(f"the deletion of {counted(begun, 'run')} of the trash was interrupted")
    return ", and ".join(texts)

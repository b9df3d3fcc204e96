"""Lost snapshots: the newest snapshot of a branch is gone although a hint names it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_spark.core.metadata.refs import branch_name, branches
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class LostSnapshot:
    """The newest snapshot of a branch, which is missing, and the newest one that exists, if any."""

    table: Table
    snapshot_id: int
    newest: int | None

    @property
    def path(self) -> str:
        """Return the path of the missing file."""
        return self.table.paths.snapshot(self.snapshot_id)

    @property
    def error(self) -> CorruptTableError:
        """Return the error for an operation that would lose the files of the snapshot for good."""
        hint = self.table.paths.latest_hint
        there = "there is no snapshot" if self.newest is None else f"the newest snapshot is {self.newest}"
        accept = f"delete {hint}" if self.newest is None else f"roll the table back to snapshot {self.newest}"
        return CorruptTableError(
            f"The snapshot file {self.path} is missing: {hint} names it, but {there}.",
            hint=f"Restore the file from a backup. To accept the loss, {accept}.",
            kind=ErrorKind.FILE_MISSING,
        )


def lost_snapshots(table: Table) -> list[LostSnapshot]:
    """Return the lost newest snapshots of a table and all its branches."""
    found = []
    for branch in (MAIN_BRANCH, *map(branch_name, branches(table))):
        place = replace(table, branch=branch)
        lost = place.snapshots.lost_id()
        if lost is not None:
            found.append(LostSnapshot(place, lost, max(place.snapshots.listed_ids(), default=None)))
    return found


def check_not_lost(table: Table) -> None:
    """Raise if a branch of the table has lost its newest snapshot: nothing protects the files that only it has.

    Raises:
        CorruptTableError: it has.
    """
    for lost in lost_snapshots(table):
        raise lost.error

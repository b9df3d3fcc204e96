"""Lost references: what readers of snapshots and tags do not see, although something was there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, branch_name, branches
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class LostReference:
    """A snapshot, tag or changelog file that is gone, and the error for operations that would delete its files."""

    path: str
    error: CorruptTableError


@dataclass(frozen=True, slots=True)
class SnapshotGap:
    """Two snapshots, and the path of the first one that is missing between them."""

    path: str
    before: int
    after: int

    @property
    def text(self) -> str:
        """Return what is missing."""
        return f"snapshots {self.before} and {self.after} exist, but none between them"


def lost_references(table: Table) -> list[LostReference]:
    """Return the lost references of a table and all its branches.

    These are newest snapshots that a hint names and that do not exist, and directories in place of the files.
    """
    places = [replace(table, branch=b) for b in (MAIN_BRANCH, *map(branch_name, branches(table)))]
    return [found for place in places for found in (*_newest(place), *_directories(place))]


def check_not_lost(table: Table) -> None:
    """Raise if the table has lost references: nothing protects the files that only they have.

    Raises:
        CorruptTableError: it has.
    """
    for lost in lost_references(table):
        raise lost.error


def snapshot_gaps(table: Table, refs: Iterable[ProtectingRef]) -> Iterator[SnapshotGap]:
    """Yield the gaps in the sequence of a branch's snapshots, without those that a rollback is about to remove."""
    target = table.snapshots.rollback_target()
    own = (r.snapshot.id for r in refs if r.kind is RefKind.SNAPSHOT and r.branch == table.branch)
    for before, after in pairwise(sorted(i for i in own if target is None or i <= target)):
        if after != before + 1 and _is_gap(table, before):
            yield SnapshotGap(table.paths.snapshot(before + 1), before, after)


def _is_gap(table: Table, before: int) -> bool:
    """Return whether a snapshot exists, but not the next one: an expiry may delete both while they are read."""
    return not table.snapshots.exists(before + 1) and table.snapshots.exists(before)


def _newest(table: Table) -> Iterator[LostReference]:
    lost = table.snapshots.lost_id()
    if lost is None:
        return
    newest, path, hint = (
        max(table.snapshots.listed_ids(), default=None),
        table.paths.snapshot(lost),
        table.paths.latest_hint,
    )
    there = "there is no snapshot" if newest is None else f"the newest snapshot is {newest}"
    accept = f"delete {hint}" if newest is None else f"roll the table back to snapshot {newest}"
    error = CorruptTableError(
        f"The snapshot file {path} is missing: {hint} names it, but {there}.",
        hint=f"Restore the file from a backup. To accept the loss, {accept}.",
        kind=ErrorKind.FILE_MISSING,
    )
    yield LostReference(path, error)


def _directories(table: Table) -> Iterator[LostReference]:
    paths = table.paths
    for kind, parent in (
        (RefKind.SNAPSHOT, paths.snapshot_dir),
        (RefKind.TAG, paths.tag_dir),
        (RefKind.CHANGELOG, paths.changelog_dir),
    ):
        for found in table.file_io.list(parent):
            if found.is_dir and found.name.startswith(f"{kind}-") and found.path != paths.tag_success_dir:
                error = CorruptTableError(
                    f"{found.path} is a directory where a file of the table should be.",
                    hint="Remove the directory, or restore the file from a backup.",
                )
                yield LostReference(found.path, error)

"""Commits that are refused after changes of others: `commit.strict-mode.last-safe-snapshot`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.table import Table
from paimon_spark.errors import RefusedCommitError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, IndexManifestEntry
from paimon_spark.spec.snapshot import Snapshot

KEY = "commit.strict-mode.last-safe-snapshot"
_REPLACING = (CommitKind.COMPACT, CommitKind.OVERWRITE)


@dataclass(slots=True)
class StrictMode:
    """The state of one committer: snapshots after `safe` are checked. Not thread-safe.

    Args:
        user: the commit user, whose own snapshots are not checked.
        safe: the last snapshot that need not be checked; -1 means the newest one when the first commit is made.
    """

    user: str
    safe: int

    @classmethod
    def of(cls, table: Table, user: str, *, continued: bool = False) -> StrictMode | None:
        """Return the strict mode of a new committer, or None if the option is not set.

        Args:
            table: the table.
            user: the commit user.
            continued: earlier committers of the user may have checked the snapshots up to their last commit.
        """
        safe = table.options.number_or_none("commit.strict-mode.last-safe-snapshot")
        if safe is None:
            return None
        return cls(user, (_last_of(table, user, safe) if continued else None) or safe)

    def check(self, store: ManifestStore, base: Snapshot | None, change: Change) -> None:
        """Check the snapshots up to `base`, on which `change` is to be committed; they are safe from then on.

        Raises:
            RefusedCommitError: another user compacted or overwrote a partition of the change, or appended to one that
                the change overwrites; or a snapshot that has to be checked has expired.
        """
        latest = 0 if base is None else base.id
        first = latest + 1 if self.safe < 0 else self.safe + 1
        partitions = {e.partition for e in change.entries} | _partitions_of_rows(change.index_changes)
        for number in range(first, latest + 1) if partitions else ():
            self._check_one(store, number, partitions, overwrites=change.kind is CommitKind.OVERWRITE)
        self.safe = latest

    def _check_one(self, store: ManifestStore, number: int, partitions: set[bytes], *, overwrites: bool) -> None:
        table = store.table
        snapshot = table.snapshots.find(number)
        if snapshot is None:
            raise _refused(table, f"Snapshot {number}, which has to be checked, has expired.")
        if snapshot.commit_user == self.user:
            return
        changed: set[bytes] = set()
        if snapshot.commit_kind in _REPLACING:
            changed = {e.partition for e in store.delta_entries(snapshot)} | _changed_indexes(store, snapshot)
        elif snapshot.commit_kind is CommitKind.APPEND and overwrites:
            changed = {e.partition for e in store.delta_entries(snapshot) if e.bucket >= 0}
        if common := changed & partitions:
            where = table.partition_text(min(common)).rstrip("/")
            place = f"the partition {where}" if where else "the table"
            what = f"Another statement changed {place} in snapshot {number} ({snapshot.commit_kind})"
            raise _refused(table, f"{what}, after the last safe snapshot {self.safe}.")


def _last_of(table: Table, user: str, above: int) -> int | None:
    """Return the last snapshot of a user above `above`, or None if there is none, or it has expired."""
    for number in range(table.snapshots.latest_id() or 0, max(above, 0), -1):
        found = table.snapshots.find(number)
        if found is None or found.commit_user == user:
            return None if found is None else number
    return None


def _partitions_of_rows(changes: Iterable[IndexManifestEntry]) -> set[bytes]:
    """Return the partitions of changed deletion vectors and global indexes."""
    return {
        e.partition for e in changes if e.file.index_type == DELETION_VECTORS_INDEX or e.file.global_index is not None
    }


def _changed_indexes(store: ManifestStore, snapshot: Snapshot) -> set[bytes]:
    """Return the partitions whose index files a snapshot changed; all with index files, if the one before is gone."""
    before = store.table.snapshots.find(snapshot.id - 1)
    if before is not None and before.index_manifest == snapshot.index_manifest:
        return set()
    old = {(e.partition, e.bucket, e.file.file_name) for e in store.index_entries(before)}
    new = {(e.partition, e.bucket, e.file.file_name) for e in store.index_entries(snapshot)}
    return {partition for partition, _, _ in old ^ new}


def _refused(table: Table, what: str) -> RefusedCommitError:
    return RefusedCommitError(
        f"The commit to table {table.name} is refused by '{KEY}'. {what}",
        hint=f"Read the table again, and set '{KEY}' to the snapshot that was read.",
    )

"""Overwrites of the branches of a chain table (docs/spec/semantics.md, Y9).

A partition of the snapshot branch is out of date once its deltas are replaced, so it is dropped after that commit. It
cannot be dropped while later deltas have no other snapshot before them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from paimon_spark.core.commit.change_set import Change, overwrite_part
from paimon_spark.core.commit.commit_retry import Planner
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.chain_splits import BranchState
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import UsageError
from paimon_spark.spec.chain_tables import ChainOrder, chain_branches, is_chain_table
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DataFileKey
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.snapshot import Snapshot


@dataclass(slots=True)
class ChainGuard:
    """Checks an overwrite of one branch of a chain table, and knows what to drop after it."""

    table: Table
    snapshots: Table
    deltas: Table
    _outdated: frozenset[bytes] = field(default_factory=frozenset)

    @classmethod
    def of(cls, table: Table) -> ChainGuard | None:
        """Return the guard of a branch; None for tables without chains, and for other branches.

        The main branch names the branches, if the branch itself does not.
        """
        if not is_chain_table(table.options):
            return None
        names = chain_branches(table.options) or chain_branches(on_branch(table, MAIN_BRANCH).options)
        if names is None or table.branch not in names:
            return None
        return cls(table, on_branch(table, names.snapshot), on_branch(table, names.delta))

    def planner(self, plan: Planner) -> Planner:
        """Return a planner of the same change.

        It raises a UsageError if the change would break a chain, and an AccessDeniedError if the user may not change
        the branch of snapshots, which would have to follow.
        """

        def guarded(store: ManifestStore, base: Snapshot | None) -> Change:
            change = plan(store, base)
            kept = _kept(store, base, change)
            if self.table.branch == self.snapshots.branch:
                self._check_snapshots(change, kept, BranchState(self.table, base).partitions())
            else:
                self._check_deltas(change, kept, BranchState(self.table, base).partitions())
            return change

        return guarded

    def after(self) -> tuple[Table, Planner] | None:
        """Return the commit that follows: the branch of snapshots, and the change that drops outdated partitions."""
        partitions = self._outdated
        if not partitions:
            return None

        def plan(store: ManifestStore, base: Snapshot | None) -> Change:
            index = [i for i in store.index_entries(base) if i.partition in partitions]
            return overwrite_part((), live_in_partitions(store, base, partitions), index)

        return self.snapshots, plan

    def _check_snapshots(self, change: Change, kept: Collection[bytes], before: frozenset[bytes]) -> None:
        kinds = {e.kind for e in change.entries} | {i.kind for i in change.index_changes}
        if FileKind.ADD in kinds:
            return
        dropped = change.partitions.difference(kept)
        deltas = BranchState(self.deltas, self.deltas.snapshots.latest()).partitions()
        self._check(dropped, before - dropped, deltas, "dropped")

    def _check_deltas(self, change: Change, kept: Collection[bytes], before: frozenset[bytes]) -> None:
        changed = {e.partition for e in change.entries}
        full = BranchState(self.snapshots, self.snapshots.snapshots.latest()).partitions()
        self._outdated = full & changed
        if self._outdated:
            self.snapshots.require(Privilege.INSERT)
        after = before.difference(changed).union(kept)
        self._check(self._outdated, full - changed, after, "dropped, as an overwrite of its deltas requires")

    def _check(self, dropped: Collection[bytes], kept: frozenset[bytes], deltas: Collection[bytes], what: str) -> None:
        order = ChainOrder.of(self.snapshots.schema, self.snapshots.options)
        found = order.stranded(dropped, kept, deltas) if dropped else None
        if found is None:
            return
        raise UsageError(
            f"The partition {self.table.partition_text(found)} of {self.snapshots.name} cannot be {what}: later "
            f"partitions of {self.deltas.name} are merged into it, and there is no snapshot before it.",
            hint="Call sys.compact_chain_table for a later partition first, or drop the later deltas.",
        )


def _kept(store: ManifestStore, base: Snapshot | None, change: Change) -> set[bytes]:
    """Return the changed partitions that have files after a change."""
    removed, added = change.removed, {e.partition for e in change.entries if e.kind is FileKind.ADD}
    live = live_in_partitions(store, base, change.partitions) if change.partitions else []
    return added | {e.partition for e in live if DataFileKey(e.partition, e.bucket, e.file.file_name) not in removed}

"""Commits that change only the manifests: no file is added or removed by an entry."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.commit_retry import SnapshotPublisher
from paimon_spark.core.commit.snapshot_builder import BuiltSnapshot, CommitMetadata, SnapshotBuilder
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.sequence_numbers import MAX_SEQUENCE
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import NotFoundError
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER, CommitKind
from paimon_spark.spec.manifest import ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Manifests:
    """The data manifests of a new snapshot, and the number of rows in its files.

    `next_row_id` is the first free row id; None keeps that of the base.
    """

    metas: Sequence[ManifestFileMeta]
    rows: int
    next_row_id: int | None = None


Rewrite = Callable[[ManifestStore, Snapshot], Manifests]
"""Returns the manifests that replace those of a snapshot; called once per attempt of the commit."""


@dataclass(frozen=True, slots=True)
class _RewriteBuilder(SnapshotBuilder):
    """Builds a snapshot that differs from its base only by the manifests."""

    rewrite: Rewrite = field(kw_only=True, repr=False)

    def build(self, store: ManifestStore, base: Snapshot | None, change: Change, schema_id: int) -> BuiltSnapshot:
        """Return the snapshot that follows `base` and keeps its schema; its manifests are written through `store`."""
        del schema_id
        if base is None:
            raise NotFoundError(f"Table {self.table.name} has no snapshot.", hint="Write to it first.")
        manifests = self.rewrite(store, base)
        base_list, base_size = store.write_list(manifests.metas)
        delta_list, delta_size = store.write_list(())
        snapshot = replace(
            base,
            id=base.id + 1,
            uuid=None,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=None,
            changelog_manifest_list_size=None,
            commit_user=self.commit_user,
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            commit_kind=change.kind,
            time_millis=max(int(self.clock() * 1000), base.time_millis),
            total_record_count=manifests.rows,
            delta_record_count=0,
            changelog_record_count=None,
            properties=_kept(base),
            next_row_id=base.next_row_id if manifests.next_row_id is None else manifests.next_row_id,
            operation=None,
        )
        return BuiltSnapshot(snapshot)


def _kept(base: Snapshot) -> dict[str, str] | None:
    """Return the properties of the base that hold for any snapshot with its files."""
    return {k: v for k, v in (base.properties or {}).items() if k == MAX_SEQUENCE} or None


@translate_io_errors()
def publish_rewritten(table: Table, rewrite: Rewrite, kind: CommitKind, *, purpose: str) -> int:
    """Publish a snapshot with other manifests; return its id.

    Args:
        table: the table.
        rewrite: returns the manifests.
        kind: kind of the snapshot.
        purpose: begins the name of the commit user.

    Raises:
        NotFoundError: the table has no snapshot.
        ConflictError: every attempt lost the race.
        OutcomeUnknownError: the store never reported whether the snapshot was created.
    """
    user = f"{purpose}-{uuid.uuid4()}"
    builder = _RewriteBuilder(table, user, CommitMetadata(), time.time, rewrite=rewrite)
    return SnapshotPublisher(builder, lambda _store, _base: Change(kind=kind), kind, time.sleep).publish()

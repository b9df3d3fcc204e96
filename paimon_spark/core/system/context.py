"""What a system table is asked about: a table, one of its snapshots, and whose wall clock times are shown in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SystemContext:
    """`zone` None is the zone of this process, as Paimon uses the zone of its JVM."""

    table: Table
    snapshot: Snapshot | None
    zone: tzinfo | None = None

    @property
    def store(self) -> ManifestStore:
        """Return the manifests of the table."""
        return ManifestStore(self.table)

    def live(self) -> Iterable[ManifestEntry]:
        """Return the live files of the snapshot, all levels; files that wait for a bucket are not among them."""
        if self.snapshot is None:
            return ()
        store = self.store
        return live_entries(store, store.data_manifests(self.snapshot), lambda e: e.bucket >= 0)

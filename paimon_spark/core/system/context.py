"""The input of a system table: a table, one of its snapshots, and the time zone for wall-clock times."""

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
    """`zone` None is the time zone of this process, as Paimon uses that of its JVM."""

    table: Table
    snapshot: Snapshot | None
    zone: tzinfo | None = None

    @property
    def store(self) -> ManifestStore:
        """Return the manifest store of the table."""
        return ManifestStore(self.table)

    def live(self, *, postponed: bool = False) -> Iterable[ManifestEntry]:
        """Return the live entries of the snapshot, all levels; `postponed`: also files that have no bucket yet."""
        if self.snapshot is None:
            return ()
        store = self.store
        return live_entries(store, store.data_manifests(self.snapshot), lambda e: postponed or e.bucket >= 0)

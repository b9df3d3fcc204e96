"""Looks up the files whose rows a statement changes, by path, in one snapshot.

File names are not unique: a migrated table may have files of the same name in several partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.spec.manifest import DataFileKey, ManifestEntry
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True)
class LiveFileLookup:
    """The live files of a table in a snapshot, the newest one unless another is named; read once on first access."""

    table: Table
    snapshot_id: int | None = None

    def entries(self) -> Iterable[ManifestEntry]:
        """Return the entries of all live files."""
        return self._state[0].values()

    def entry(self, path: str) -> ManifestEntry:
        """Return the entry of a data file.

        Raises:
            ConflictError: the file is no longer part of the table.
        """
        entry = self._state[0].get(self._key(path))
        if entry is None:
            name = path.rpartition("/")[2]
            raise ConflictError(
                f"The file '{name}' of table {self.table.name}, which holds rows to be changed, is gone: another "
                "commit compacted or overwrote it.",
                hint="Nothing was written. Run the statement again: it will start from the new state.",
            )
        return entry

    def vector(self, entry: ManifestEntry) -> VectorRef | None:
        """Return the location of a data file's deletion vector, or None."""
        return self._state[1].get(DataFileKey(entry.partition, entry.bucket, entry.file.file_name))

    def _key(self, path: str) -> str:
        """Return a path relative to the table: partition, bucket and name."""
        return "/".join(path.split("/")[-len(self.table.schema.partition_keys) - 2 :])

    @cached_property
    def _state(self) -> tuple[dict[str, ManifestEntry], dict[DataFileKey, VectorRef]]:
        store, snapshot, paths = ManifestStore(self.table), self._snapshot(), self.table.paths
        live = live_in_partitions(store, snapshot, None)
        entries = {self._key(paths.data_file(e.partition, e.bucket, e.file)): e for e in live}
        return entries, vector_refs(self.table, store.index_entries(snapshot))

    def _snapshot(self) -> Snapshot | None:
        if self.snapshot_id is None:
            return self.table.snapshots.latest()
        found = self.table.snapshots.find(self.snapshot_id)
        if found is None:
            raise ConflictError(
                f"Snapshot {self.snapshot_id} of table {self.table.name}, whose rows are to be changed, has expired.",
                hint="Nothing was written. Run the statement again: it will start from the new state.",
            )
        return found

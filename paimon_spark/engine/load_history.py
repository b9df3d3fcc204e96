"""Which files COPY INTO has loaded into a table.

A record counts while the snapshot of its load is part of the table. Rollbacks remove the records of what they roll
back; those of other programs do not, so a record does not count either if the latest snapshot is older, or if another
snapshot, committed after the load, has its number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from paimon_spark.core.metadata.load_records import LoadRecord, LoadRecords
from paimon_spark.core.metadata_io import in_parallel, translate_io_errors
from paimon_spark.core.snapshots import SnapshotStore
from paimon_spark.core.table import Table


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load: path, bytes, and when it was changed, in epoch milliseconds."""

    path: str
    size: int
    changed: int

    @property
    def name(self) -> str:
        """Return the name without the directory."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """The records of a table."""

    records: LoadRecords
    snapshots: SnapshotStore

    @classmethod
    def of(cls, table: Table) -> LoadHistory:
        """Return the history of a table, or of its branch."""
        return cls(LoadRecords.of(table), table.snapshots)

    @translate_io_errors()
    def loaded(self, files: Collection[SourceFile]) -> set[SourceFile]:
        """Return those of the files that were loaded, with that size and time of change."""
        asked = set(files)
        records = self.records.read({s.path for s in asked}).values()
        known = [(s, r) for s, r in ((_source(r), r) for r in records) if s in asked]
        written = self._in_force({r.snapshotId for _, r in known})
        return {s for s, r in known if written.get(r.snapshotId, r.loadedAt + 1) <= r.loadedAt}

    def _in_force(self, ids: Collection[int]) -> dict[int, int]:
        """Return when those snapshots of loads were committed that are not newer than the latest one."""
        latest = self.snapshots.latest_id() or 0
        found = {i: self.snapshots.find(i) if i else None for i in ids if i <= latest}
        return {i: s.time_millis if s is not None else 0 for i, s in found.items()}

    @translate_io_errors()
    def record(self, loaded: Sequence[tuple[SourceFile, int]], snapshot_id: int, millis: int) -> None:
        """Record files with the number of their rows that were loaded.

        The time of the load is not before that of the snapshot, which may come from another clock.
        """
        snapshot = self.snapshots.find(snapshot_id) if snapshot_id else None
        at = max(millis, snapshot.time_millis) if snapshot is not None else millis

        def write(item: tuple[SourceFile, int]) -> None:
            source, rows = item
            self.records.write(
                LoadRecord(
                    filePath=source.path,
                    fileSize=source.size,
                    lastModified=source.changed,
                    loadedAt=at,
                    snapshotId=snapshot_id,
                    rowsLoaded=rows,
                )
            )

        in_parallel(write, loaded)


def _source(record: LoadRecord) -> SourceFile:
    return SourceFile(record.filePath, record.fileSize, record.lastModified)

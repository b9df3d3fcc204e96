"""Which files COPY INTO has loaded into a table: records in `copy-into/history`, in Paimon's format.

A branch has records of its own. A record counts while the snapshot of its load is part of the table: after a rollback,
the latest snapshot is older, or another snapshot, committed after the load, has its number.

A record is a JSON file `load-<first 16 hexadecimal digits of the path's SHA-256>-<time of the load>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from paimon_spark.core.metadata_io import in_parallel, read_if_there, translate_io_errors
from paimon_spark.core.snapshots import SnapshotStore
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO

_DIGITS = 16


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A file that was loaded, with Paimon's names."""

    filePath: str  # noqa: N815
    fileSize: int  # noqa: N815
    lastModified: int  # noqa: N815
    loadedAt: int  # noqa: N815
    snapshotId: int  # noqa: N815
    rowsLoaded: int  # noqa: N815

    @property
    def source(self) -> SourceFile:
        return SourceFile(self.filePath, self.fileSize, self.lastModified)


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """The records of a table."""

    file_io: FileIO
    directory: str
    snapshots: SnapshotStore

    @classmethod
    def of(cls, table: Table) -> LoadHistory:
        """Return the history of a table, or of its branch."""
        return cls(table.file_io, f"{table.paths.metadata_root}/copy-into/history", table.snapshots)

    @translate_io_errors()
    def loaded(self, files: Collection[SourceFile]) -> set[SourceFile]:
        """Return those of the files that were loaded, with that size and time of change."""
        asked, wanted = set(files), {_digest(s.path) for s in files}
        if not wanted or not self.file_io.exists(self.directory):
            return set()
        names = [status.path for status in self.file_io.list(self.directory)]
        records = in_parallel(self._read, [n for n in names if _digest_of(n) in wanted])
        known = [r for r in records if r is not None and r.source in asked]
        written = self._in_force({r.snapshotId for r in known})
        return {r.source for r in known if written.get(r.snapshotId, r.loadedAt + 1) <= r.loadedAt}

    def _in_force(self, ids: Collection[int]) -> dict[int, int]:
        """Return when those snapshots of loads were committed that are not newer than the latest one."""
        latest = self.snapshots.latest_id() or 0
        found = {i: self.snapshots.find(i) if i else None for i in ids if i <= latest}
        return {i: s.time_millis if s is not None else 0 for i, s in found.items()}

    def _read(self, path: str) -> _Record | None:
        """Return a record; None for a file that is none, and whose source is loaded again."""
        data = read_if_there(self.file_io, path)
        try:
            return msgspec.json.decode(data, type=_Record) if data is not None else None
        except ValueError:
            return None

    @translate_io_errors()
    def record(self, loaded: Sequence[tuple[SourceFile, int]], snapshot_id: int, millis: int) -> None:
        """Record files with the number of their rows that were loaded.

        The time of the load is not before that of the snapshot, which may come from another clock.
        """
        snapshot = self.snapshots.find(snapshot_id) if snapshot_id else None
        at = max(millis, snapshot.time_millis) if snapshot is not None else millis

        def write(item: tuple[SourceFile, int]) -> None:
            source, rows = item
            record = _Record(
                filePath=source.path,
                fileSize=source.size,
                lastModified=source.changed,
                loadedAt=at,
                snapshotId=snapshot_id,
                rowsLoaded=rows,
            )
            path = f"{self.directory}/load-{_digest(source.path)}-{at}"
            self.file_io.write(path, msgspec.json.encode(record))

        in_parallel(write, loaded)


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:_DIGITS]


def _digest_of(record: str) -> str:
    """Return the digest in the name of a record; empty for other files."""
    kind, _, rest = record.rpartition("/")[2].partition("-")
    return rest.partition("-")[0] if kind == "load" else ""

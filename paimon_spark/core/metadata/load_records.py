"""The records of COPY INTO below `copy-into/history`, in Paimon's format: one JSON file for each file that was loaded.

A record is named `load-<first 16 hexadecimal digits of the path's SHA-256>-<time of the load>`. A branch has records
of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from paimon_spark.core.metadata_io import in_parallel, read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO, FileStatus

_DIGITS = 16
_SKEW = 86_400_000
"""By how many milliseconds the clocks of two programs may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """A file that was loaded, with Paimon's names."""

    filePath: str  # noqa: N815
    fileSize: int  # noqa: N815
    lastModified: int  # noqa: N815
    loadedAt: int  # noqa: N815
    snapshotId: int  # noqa: N815
    rowsLoaded: int  # noqa: N815


@dataclass(frozen=True, slots=True)
class LoadRecords:
    """The records of a table or branch."""

    file_io: FileIO
    directory: str

    @classmethod
    def of(cls, table: Table) -> LoadRecords:
        """Return the records of a table, or of its branch."""
        return cls(table.file_io, f"{table.paths.metadata_root}/copy-into/history")

    @translate_io_errors()
    def files(self) -> list[FileStatus]:
        """Return the files of all records, by one listing."""
        return sorted((s for s in self.file_io.list(self.directory) if _wanted(s.name, None)), key=lambda s: s.path)

    @translate_io_errors()
    def read(self, loaded: Collection[str]) -> dict[str, LoadRecord]:
        """Return the records of loaded files by their paths; malformed ones are left out."""
        wanted = {_digest(path) for path in loaded}
        if not wanted:
            return {}
        files = [s for s in self.file_io.list(self.directory) if _wanted(s.name, wanted)]
        return {s.path: record for s, record in self._readable(files)}

    @translate_io_errors()
    def above(
        self, snapshot_id: int, since_millis: int | None = None, files: Sequence[FileStatus] | None = None
    ) -> list[FileStatus]:
        """Return the files of the records of loads that newer snapshots have committed.

        Args:
            snapshot_id: the snapshot.
            since_millis: when it was committed. No newer load is earlier, so earlier records are not read, but for
                those within a day, as clocks differ; without it, all are read.
            files: the files of records to look at, by default all.
        """
        since = 0 if since_millis is None else since_millis - _SKEW
        asked = [s for s in (self.files() if files is None else files) if _may_be_since(s.name, since)]
        return [s for s, record in self._readable(asked) if record.snapshotId > snapshot_id]

    @translate_io_errors()
    def up_to(self, snapshot_id: int, files: Sequence[FileStatus]) -> list[FileStatus]:
        """Return those of the files of records whose loads a snapshot or those before it have committed."""
        return [s for s, record in self._readable(files) if record.snapshotId <= snapshot_id]

    def _readable(self, files: Sequence[FileStatus]) -> list[tuple[FileStatus, LoadRecord]]:
        found = zip(files, in_parallel(self._read, [s.path for s in files]), strict=True)
        return [(s, record) for s, record in found if record is not None]

    def _read(self, path: str) -> LoadRecord | None:
        data = read_if_there(self.file_io, path)
        try:
            return msgspec.json.decode(data, type=LoadRecord) if data is not None else None
        except ValueError:
            return None

    def write(self, record: LoadRecord) -> None:
        """Write a record."""
        path = f"{self.directory}/load-{_digest(record.filePath)}-{record.loadedAt}"
        self.file_io.write(path, msgspec.json.encode(record))


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:_DIGITS]


def _wanted(name: str, digests: Collection[str] | None) -> bool:
    kind, _, rest = name.partition("-")
    return kind == "load" and (digests is None or rest.partition("-")[0] in digests)


def _may_be_since(name: str, millis: int) -> bool:
    """Return whether the name of a record has a time that is not earlier, or none."""
    time = name.rpartition("-")[2]
    return not time.isdecimal() or int(time) >= millis

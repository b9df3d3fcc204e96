"""The records of COPY INTO below `copy-into/history`, in Paimon's format: one JSON file for each file that was loaded.

A record is named `load-<first 16 hexadecimal digits of the path's SHA-256>-<time of the load>`. A branch has records
of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from paimon_spark.core.metadata_io import in_parallel, read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO

_DIGITS = 16


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
    def read(self, loaded: Collection[str] | None = None) -> dict[str, LoadRecord]:
        """Return records by their paths: all of them, or those of loaded files; malformed ones are left out."""
        wanted = None if loaded is None else {_digest(path) for path in loaded}
        if wanted is not None and not wanted:
            return {}
        paths = [s.path for s in self.file_io.list(self.directory) if _wanted(s.name, wanted)]
        found = zip(paths, in_parallel(self._read, paths), strict=True)
        return {path: record for path, record in found if record is not None}

    def above(self, snapshot_id: int) -> list[str]:
        """Return the paths of the records of loads that newer snapshots have committed."""
        return sorted(path for path, record in self.read().items() if record.snapshotId > snapshot_id)

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

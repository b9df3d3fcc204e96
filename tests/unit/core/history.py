"""Tables with a history for the tests of expiry, rollback and tags, and what must hold of their files afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.testing.invariants import leaked, lost, needed, present
from tests.unit.core import samples

__all__ = ["MINUTE", "History", "leaked", "lost", "needed", "present"]
MINUTE = 60_000


class History:
    """A primary key table of one bucket; every commit happens at a minute that the test names."""

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        branch: str | None = None,
        *,
        file_io: FileIO | None = None,
        path: str = "/wh/db.db/t",
    ) -> None:
        self.table: Table = samples.table({"bucket": "1", **(options or {})}, keys=["k"], file_io=file_io, path=path)
        if branch is not None:
            self.table = replace(self.table, branch=branch)
        self.minute = 0

    def at(self, minute: int) -> History:
        """Set the clock."""
        self.minute = minute
        return self

    def add(self, *files: DataFileMeta) -> int:
        """Commit new files, by default one of level 0; return the snapshot's id."""
        new = files or (samples.file(1, 9),)
        return self._commit(samples.message(*new, total_buckets=1), new)

    def compact(self, *before: DataFileMeta, into: DataFileMeta) -> int:
        """Commit the compaction of some files into one."""
        message = CommitMessage(
            partition=samples.partition(), bucket=0, total_buckets=1, compact_before=before, compact_after=(into,)
        )
        return self._commit(message, (into,))

    def path(self, file: DataFileMeta) -> str:
        """Return the path of a data file."""
        return self.table.paths.data_file(samples.partition(), 0, file)

    def exists(self, file: DataFileMeta) -> bool:
        """Return whether a data file is there."""
        return self.table.file_io.exists(self.path(file))

    def _commit(self, message: CommitMessage, written: tuple[DataFileMeta, ...]) -> int:
        for file in written:
            self.table.file_io.write(self.path(file), b"x" * file.file_size)
        clock = self.minute * MINUTE / 1000
        result = FileStoreCommit(self.table, "me", clock=lambda: clock).commit([message])
        assert isinstance(result, Committed)
        return result.snapshot_ids[-1]

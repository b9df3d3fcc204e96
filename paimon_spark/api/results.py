"""Result types of the methods of a table handle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from paimon_spark.core.commit.committer import Committed
from paimon_spark.engine.compaction.compact import CompactionResult
from paimon_spark.engine.expiry.expire import ExpireResult
from paimon_spark.engine.expiry.orphans import OrphanResult
from paimon_spark.engine.insert import WriteResult
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Written:
    """A committed write.

    Attributes:
        rows: number of rows written or deleted. A delete by key that writes `-D` rows does not read the table: it
            counts the keys given, also those that no row has.
        snapshot_id: the snapshot of the commit; None if there was nothing to write.
        compacted: whether a compaction followed, in a snapshot of its own.
    """

    rows: int
    snapshot_id: int | None
    compacted: bool = False

    @classmethod
    def of(cls, rows: int, result: WriteResult) -> Written:
        """Return the result of a write."""
        done = result.commit
        snapshot_id = done.snapshot_ids[0] if isinstance(done, Committed) else None
        return cls(rows, snapshot_id, bool(result.compacted and result.compacted.snapshot_ids))


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction. `snapshot_id` is None if there was nothing to compact."""

    snapshot_id: int | None
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int

    @classmethod
    def of(cls, result: CompactionResult) -> Compacted:
        """Return the result of a compaction."""
        total = result.total
        newest = result.snapshot_ids[-1] if result.snapshot_ids else None
        return cls(newest, total.files_in, total.files_out, total.bytes_in, total.bytes_out)


@dataclass(frozen=True, slots=True)
class Expired:
    """A snapshot expiry: the number of expired snapshots, and the number and size of deleted files."""

    snapshots: int
    files: int
    bytes: int

    @classmethod
    def of(cls, result: ExpireResult) -> Expired:
        """Return the result of an expiry."""
        return cls(result.count, result.files, result.bytes)


@dataclass(frozen=True, slots=True)
class Removed:
    """An orphan file removal: the number and size of deleted files."""

    files: int
    bytes: int

    @classmethod
    def of(cls, result: OrphanResult) -> Removed:
        """Return the result of a removal."""
        return cls(result.files, result.bytes)


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A snapshot of a table, which `VERSION AS OF` can read.

    Attributes:
        id: snapshot id.
        time: commit time in UTC.
        kind: APPEND, COMPACT, OVERWRITE or ANALYZE.
        operation: the kind of statement, if known.
        rows: rows in all files, including superseded rows of a primary key table.
        rows_changed: change of `rows` by this commit.
        commit_user: the committing user; a random name unless the writer set one.
        schema_id: schema of the snapshot.
    """

    id: int
    time: datetime
    kind: str
    operation: str | None
    rows: int
    rows_changed: int
    commit_user: str
    schema_id: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotInfo:
        """Return the description of a snapshot."""
        return cls(
            id=snapshot.id,
            time=datetime.fromtimestamp(snapshot.time_millis / 1000, UTC),
            kind=str(snapshot.commit_kind),
            operation=snapshot.operation,
            rows=snapshot.total_record_count,
            rows_changed=snapshot.delta_record_count,
            commit_user=snapshot.commit_user,
            schema_id=snapshot.schema_id,
        )

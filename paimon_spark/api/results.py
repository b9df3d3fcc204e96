"""What the methods of a table handle answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from paimon_spark.core.commit.committer import Committed
from paimon_spark.engine.compact import CompactionResult
from paimon_spark.engine.expire import ExpireResult
from paimon_spark.engine.insert import WriteResult
from paimon_spark.engine.orphans import OrphanResult
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Written:
    """A write that is committed.

    Attributes:
        rows: rows added, replaced or deleted.
        snapshot_id: the snapshot that holds them; None if there was nothing to write.
        compacted: whether a compaction followed in a snapshot of its own.
    """

    rows: int
    snapshot_id: int | None
    compacted: bool = False

    @classmethod
    def of(cls, rows: int, result: WriteResult) -> Written:
        """Return what a write did."""
        done = result.commit
        snapshot_id = done.snapshot_ids[0] if isinstance(done, Committed) else None
        return cls(rows, snapshot_id, bool(result.compacted and result.compacted.snapshot_ids))


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction. `snapshot_id` is None if the files were in order already."""

    snapshot_id: int | None
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int

    @classmethod
    def of(cls, result: CompactionResult) -> Compacted:
        """Return what a compaction did."""
        total = result.total
        newest = result.snapshot_ids[-1] if result.snapshot_ids else None
        return cls(newest, total.files_in, total.files_out, total.bytes_in, total.bytes_out)


@dataclass(frozen=True, slots=True)
class Expired:
    """An expiry: how many snapshots went, and how many files and bytes with them."""

    snapshots: int
    files: int
    bytes: int

    @classmethod
    def of(cls, result: ExpireResult) -> Expired:
        """Return what an expiry did."""
        return cls(result.count, result.files, result.bytes)


@dataclass(frozen=True, slots=True)
class Removed:
    """A removal of orphan files: how many, and their bytes."""

    files: int
    bytes: int

    @classmethod
    def of(cls, result: OrphanResult) -> Removed:
        """Return what a removal did."""
        return cls(result.files, result.bytes)


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One state of a table: what `VERSION AS OF` can travel to.

    Attributes:
        id: its number.
        time: when it was committed, in UTC.
        kind: APPEND, COMPACT, OVERWRITE or ANALYZE.
        operation: what the statement was, where that is known.
        rows: rows in all its files, superseded ones of a primary-key table included.
        rows_changed: by how much its commit changed that number.
        commit_user: who committed; a random name unless the writer chose one.
        schema_id: the schema it was written with.
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
        """Return what there is to say of a snapshot."""
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

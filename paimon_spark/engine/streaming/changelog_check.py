"""The changelog producers of the commits that a stream reads: which rows each of them leaves to a later changelog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from paimon_spark.core.changelog.reported import first_reported_level
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.errors import ErrorKind, NotFoundError
from paimon_spark.spec.kinds import ChangelogProducer, CommitKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.options import POSTPONE_BUCKET, CoreOptions
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Delivered:
    """Which live files a stream has read: those from a level on, and perhaps postponed ones."""

    level: int
    postponed: bool

    @classmethod
    def by(cls, table: Table, producer: ChangelogProducer) -> Self:
        """Return what a changelog producer has delivered."""
        return cls(first_reported_level(table, producer), producer is ChangelogProducer.NONE)

    def has(self, entry: ManifestEntry) -> bool:
        """Return whether the rows of a file were delivered."""
        return self.postponed if entry.bucket == POSTPONE_BUCKET else entry.file.level >= self.level


@dataclass(frozen=True, slots=True)
class StreamChangelogs:
    """The changelogs of a table, as its stream reads them. Schemas are read once.

    Args:
        table: the table at the schema of the query, with the options of the stream.
    """

    table: Table
    _producers: dict[int, ChangelogProducer] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def producer(self) -> ChangelogProducer | None:
        """Return the producer by which a state is read; None in a table without a primary key."""
        return self.table.options.changelog_producer if self.table.is_primary_key_table else None

    def delivered_by(self, snapshot: Snapshot) -> ChangelogProducer | None:
        """Return the producer by which the changes up to those of a snapshot are delivered.

        Without a changelog, these are the rows of each commit; otherwise the changelog that each commit has written.
        """
        return self.producer if self.producer in (None, ChangelogProducer.NONE) else self._written_by(snapshot)

    def _written_by(self, snapshot: Snapshot) -> ChangelogProducer:
        schema_id = snapshot.schema_id
        if schema_id == self.table.schema.id:
            return self.table.options.changelog_producer
        if schema_id not in self._producers:
            found = self.table.schema_store.get(schema_id)
            self._producers[schema_id] = CoreOptions(found.options).changelog_producer
        return self._producers[schema_id]

    def check_written(self, snapshot: Snapshot) -> None:
        """Check that a commit was not made while the table had no changelog producer.

        Such a commit has no changelog, now that the table has a producer: a stream would skip its rows.

        Raises:
            NotFoundError: it was.
        """
        changes = snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
        if snapshot.changelog_manifest_list is not None or not changes:
            return
        if self._written_by(snapshot) is ChangelogProducer.NONE:
            raise NotFoundError(
                f"The stream of table {self.table.name} cannot go on: snapshot {snapshot.id} has no changelog, because "
                "the table had 'changelog-producer' = 'none' then.",
                hint="Start with a new checkpoint, which reads the table again by default, or set 'scan.snapshot-id' "
                "to a later snapshot. Before the option is changed, let streams read all snapshots.",
                kind=ErrorKind.SNAPSHOT_NOT_FOUND,
            )

    def check_next(self, position: StreamOffset, snapshot: Snapshot) -> None:
        """Check that the changes of a snapshot continue what a stream has read up to a position.

        Rows below the first level that a producer reports are not delivered yet, and so are missing or repeated under
        another producer.

        Raises:
            NotFoundError: they do not.
        """
        before, now = position.producer, self.delivered_by(snapshot)
        if before is None or now is None or before == now.value:
            return
        delivered, wanted = (Delivered.by(self.table, p) for p in (ChangelogProducer(before), now))
        if delivered == wanted or snapshot.id == 1:
            return
        store = ManifestStore(self.table)
        if self.table.snapshots.exists(snapshot.id):
            files = live_entries(store, store.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size))
            if all(delivered.has(e) == wanted.has(e) for e in files):
                return
        raise NotFoundError(
            f"The stream of table {self.table.name} cannot go on: it has read the changes up to snapshot "
            f"{snapshot.id - 1} with 'changelog-producer' = '{before}', and those of snapshot {snapshot.id} are for "
            f"'{now.value}'. Rows that were not compacted in between would be missing or repeated.",
            hint="Start with a new checkpoint, which reads the table again by default. Before the option is changed, "
            "compact the table fully, and let streams read all snapshots.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )

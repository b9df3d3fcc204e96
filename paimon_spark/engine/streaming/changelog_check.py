"""The changelog producers of the commits that a stream reads: which rows each of them leaves to a later changelog."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_spark.core.changelog.reported import first_reported_level
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.errors import ErrorKind, NotFoundError
from paimon_spark.spec.kinds import ChangelogProducer, CommitKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.snapshot import Snapshot


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
        first, then = (first_reported_level(self.table, p) for p in (ChangelogProducer(before), now))
        if first == then or snapshot.id == 1:
            return
        previous = self.table.snapshots.find(snapshot.id - 1)
        levels = range(min(first, then), max(first, then))
        if previous is not None and not list(
            scan_buckets(self.table, previous, statistics=False, levels=levels).buckets()
        ):
            return
        raise NotFoundError(
            f"The stream of table {self.table.name} cannot go on: it has read the changes up to snapshot "
            f"{snapshot.id - 1} with 'changelog-producer' = '{before}', and those of snapshot {snapshot.id} are for "
            f"'{now.value}'. Rows that were not compacted in between would be "
            f"{'missing' if first > then else 'repeated'}.",
            hint="Start with a new checkpoint, which reads the table again by default. Before the option is changed, "
            "compact the table fully, and let streams read all snapshots.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )

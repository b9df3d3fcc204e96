"""The check that a commit has the changelog that a stream reads."""

from __future__ import annotations

from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError
from paimon_spark.spec.kinds import ChangelogProducer, CommitKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.snapshot import Snapshot


def check_changelog(table: Table, snapshot: Snapshot) -> None:
    """Check that a commit was not made while the table had no changelog producer.

    Such a commit has no changelog, now that the table has a producer: a stream would skip its rows.

    Raises:
        NotFoundError: it was.
    """
    changes = snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
    if snapshot.schema_id == table.schema.id or snapshot.changelog_manifest_list is not None or not changes:
        return
    then = CoreOptions(table.schema_store.get(snapshot.schema_id).options).changelog_producer
    if then is ChangelogProducer.NONE:
        raise NotFoundError(
            f"The stream of table {table.name} cannot go on: snapshot {snapshot.id} has no changelog, because the "
            "table had 'changelog-producer' = 'none' then.",
            hint="Start with a new checkpoint, which reads the table again by default, or set 'scan.snapshot-id' to a "
            "later snapshot. Before the option is changed, let streams read all snapshots.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )

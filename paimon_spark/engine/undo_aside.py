"""Snapshots that the undo of a purge moves aside, into the directory of the run, before it deletes them.

A commit may take the place of a snapshot between a comparison and a deletion, so the file is moved first and compared
then. Its name has the digest of the content that was to be removed: an undo that was interrupted in between leaves a
file that tells by itself whether it is a commit, which goes back.
"""

from __future__ import annotations

import hashlib
import uuid

from paimon_spark.core.maintenance.trash import TrashPaths, TrashRecord, asides
from paimon_spark.core.metadata_io import create_once, read_if_there
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError, ErrorKind


def removed_snapshot(table: Table, record: TrashRecord, snapshot_id: int, data: bytes) -> bool:
    """Remove a snapshot file of this content; return False if there is another one, or none.

    A commit that has taken its place goes back.
    """
    store, path = table.file_io, table.paths.snapshot(snapshot_id)
    if read_if_there(store, path) != data:
        return False
    aside = f"{TrashPaths(table).run(record.run)}/snapshot-{snapshot_id}-{_digest(data)}-{uuid.uuid4().hex}"
    try:
        store.rename(path, aside)
    except FileNotFoundError:
        return False
    return not _returned(table, record, aside)


def put_back(table: Table, record: TrashRecord) -> bool:
    """Put back the commits that an interrupted undo of a purge has left aside; return whether there were any."""
    commits = [aside for aside in asides(table, record.run) if _returned(table, record, aside)]
    return bool(commits)


def _returned(table: Table, record: TrashRecord, aside: str) -> bool:
    """Put a file back if it is a commit, and remove it otherwise; return whether it is one.

    Raises:
        ConflictError: another commit has its id.
    """
    store = table.file_io
    _, number, digest, _ = aside.rpartition("/")[2].split("-")
    found, path = store.read(aside), table.paths.snapshot(int(number))
    foreign = _digest(found) != digest
    if foreign and not create_once(store, path, found) and read_if_there(store, path) != found:
        raise impossible(
            record,
            f"two snapshots {number} were committed meanwhile",
            f"Stop the writers of the table. {aside} has one of them: run its statement again, then delete the file.",
        )
    store.delete(aside)
    return foreign


def impossible(record: TrashRecord, why: str, what_to_do: str) -> ConflictError:
    """Return the error of a run that cannot be undone."""
    return ConflictError(
        f"The run '{record.run}' of {record.procedure} cannot be undone: {why}.",
        hint=what_to_do,
        kind=ErrorKind.UNDO_IMPOSSIBLE,
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]

"""Idempotent streaming writes: records about micro-batches, by which a committed one is recognized."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.errors import ConflictError, CorruptTableError, OptionError, OutcomeUnknownError
from paimon_spark.spec.bounds import Id, Long
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.stored_json import json_object, read_as

OFFSETS = "paimon-spark.stream.offsets"
"""The property of a snapshot with the digest of the offsets of its micro-batch."""
_PROCESS = uuid4().hex
"""Identifies this process in the records of attempts."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One micro-batch of a streaming query.

    Args:
        query: the id of the query, which its checkpoint stores; the user of its commits.
        batch: the number of the batch; the identifier of its commit.
        offsets: a digest of the offsets of the batch in the checkpoint.
        base: the newest snapshot when the batch was begun; the batch is in none of the snapshots up to that one.
        watermark: the watermark of the batch in milliseconds, if the query has one.
    """

    query: str
    batch: int
    offsets: str
    base: int | None = None
    watermark: int | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the snapshot properties of the batch."""
        return {OFFSETS: self.offsets}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The last batch that a query has begun to write, and the newest snapshot at that moment.

    `process` is the process that began it, and `again` whether another one had begun it before.
    """

    batch: Id
    base: Long
    process: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Commits:
    """The result of a search in the retained snapshots: the newest commit of a query, and the searched ids."""

    own: Snapshot | None
    newest: int
    lowest: int

    def covers(self, after: int) -> bool:
        """Return whether every snapshot above `after` was searched."""
        return self.lowest <= after + 1


@translate_io_errors()
def begin_batch(table: Table, batch: StreamBatch) -> StreamBatch | None:
    """Record that a batch is about to be written; return it with its base, or None if the table has it already.

    Raises:
        OptionError: an option would change the commit user, by which batches are recognized.
        ConflictError: the table has a later batch of the query, or other rows under the number of this one: the
            checkpoint is older than the table.
        OutcomeUnknownError: the batch was begun before, and the snapshots that would show its outcome have expired.
    """
    _check_user(table)
    found = _commits_of(table, batch.query)
    if found.own is not None and found.own.commit_identifier >= batch.batch:
        _check_same(table, batch, found.own)
        return None
    earlier = _attempt(table, batch.query)
    if found.own is None and not found.covers(0):
        _check_attempt(table, batch, found, earlier)
    _record_attempt(table, batch, found.newest, earlier)
    return replace(batch, base=found.newest)


def _record_attempt(table: Table, batch: StreamBatch, base: int, earlier: Attempt | None) -> None:
    same = earlier if earlier is not None and earlier.batch == batch.batch else None
    again = same is not None and (same.again or same.process != _PROCESS)
    attempt = {"batch": batch.batch, "base": base, "process": _PROCESS, "again": again}
    table.file_io.write(table.paths.stream_attempt(batch.query), json.dumps(attempt).encode())


@translate_io_errors()
def began_alone(table: Table, batch: StreamBatch) -> bool:
    """Return whether no other process has begun to write a batch that this one has begun."""
    found = _attempt(table, batch.query)
    return found is not None and not found.again and (found.batch, found.process) == (batch.batch, _PROCESS)


def _check_user(table: Table) -> None:
    prefix = table.options.commit_user_prefix
    if prefix is not None:
        raise OptionError(
            f"The option 'commit.user-prefix' = '{prefix}' does not apply to a streaming write to table {table.name}: "
            "the commit user is the id of the query, by which its batches are recognized.",
            hint="Leave it out, or remove it from the table with ALTER TABLE … UNSET TBLPROPERTIES.",
        )


def tag_savepoint(table: Table, query: str, clock_millis: int) -> str | None:
    """Tag the newest snapshot of a query, if the option `sink.savepoint.auto-tag` is set.

    Returns:
        The name of the tag, ``savepoint-<number of the batch>``; None without the option or a snapshot of the query.
    """
    found = _commits_of(table, query).own if table.options.flag("sink.savepoint.auto-tag") else None
    if found is None:
        return None
    name = f"savepoint-{found.commit_identifier}"
    exists = RefStore.of(table).find_tag(name) is not None
    execute_tag(table, plan_create_tag(table, name, clock_millis=clock_millis, snapshot_id=found.id, replace=exists))
    return name


def _commits_of(table: Table, query: str) -> _Commits:
    newest = table.snapshots.latest_id() or 0
    for snapshot_id in range(newest, 0, -1):
        found = table.snapshots.find(snapshot_id)
        if found is None:
            return _Commits(None, newest, snapshot_id + 1)
        if found.commit_user == query and found.commit_identifier != BATCH_COMMIT_IDENTIFIER:
            return _Commits(found, newest, snapshot_id)
    return _Commits(None, newest, 1)


def _check_same(table: Table, batch: StreamBatch, own: Snapshot) -> None:
    recorded = (own.properties or {}).get(OFFSETS, batch.offsets)
    if own.commit_identifier == batch.batch and recorded == batch.offsets:
        return
    later = own.commit_identifier > batch.batch
    what = f"its batch {own.commit_identifier}" if later else f"another batch {batch.batch} of it"
    raise ConflictError(
        f"Batch {batch.batch} of the query {batch.query} cannot be written to table {table.name}: snapshot {own.id} "
        f"has {what}. The checkpoint of the query is older than the table.",
        hint="Restore the newer checkpoint, or roll the table back to the snapshot of the last batch that this "
        "checkpoint has completed.",
    )


def _check_attempt(table: Table, batch: StreamBatch, found: _Commits, attempt: Attempt | None) -> None:
    """Check that a batch was not committed, although snapshots that may have it have expired.

    A newest snapshot before the attempt means that the table was rolled back.
    """
    if attempt is None or attempt.batch < batch.batch or found.newest < attempt.base:
        return
    where = table.paths.stream_attempt(batch.query)
    if attempt.batch > batch.batch:
        raise ConflictError(
            f"Batch {batch.batch} of the query {batch.query} cannot be written to table {table.name}: batch "
            f"{attempt.batch} of it was begun at snapshot {attempt.base}. The checkpoint of the query is older than "
            "the table.",
            hint="Restore the newer checkpoint. If the table was rolled back to a snapshot before this batch, delete "
            f"{where} and restart the query.",
        )
    if found.covers(attempt.base):
        return
    raise OutcomeUnknownError(
        f"It is not known whether batch {batch.batch} of the query {batch.query} is in table {table.name}: it was "
        f"begun at snapshot {attempt.base}, and snapshots after that one have expired.",
        hint=f"If its rows are not in the table, delete {where} and restart the query. If they are, start with a new "
        "checkpoint after the offsets of the batch.",
    )


def _attempt(table: Table, query: str) -> Attempt | None:
    path = table.paths.stream_attempt(query)
    data = read_if_there(table.file_io, path)
    if data is None:
        return None
    try:
        return read_as(Attempt, json_object(data))
    except ValueError as e:
        raise CorruptTableError(
            f"The file {path} is malformed: {e}.",
            hint="It records the batch that the query began last. Restore it; or delete it: the query then writes its "
            "next batch, also if the table has the rows of that batch already.",
        ) from e

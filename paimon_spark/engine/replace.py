"""REPLACE TABLE: a new schema and new rows replace the old ones with one commit."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WritePlan, WriteResult, finish_write, merged_overwrite
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.errors import ConflictError, OutcomeUnknownError, PaimonError


@translate_io_errors()
def finish_replacement(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> WriteResult:
    """Publish the schema of the plan's table, then replace all rows; either both succeed or neither.

    Args:
        plan: a static overwrite of a table at the schema version after its latest one.
        messages: commit messages of the writers; without any, the table becomes empty.
        runner: merges new files that overlap, where `merged_overwrite` does.

    Raises:
        ConflictError: another statement changed the schema meanwhile; this statement has changed nothing.
    """
    table = plan.table
    _publish(table, messages)
    try:
        return finish_write(plan, merged_overwrite(plan, messages, runner))
    except OutcomeUnknownError:
        raise
    except Exception:
        _take_back(table)
        raise


def _publish(table: Table, messages: Sequence[CommitMessage]) -> None:
    try:
        if table.schema_store.try_create(table.schema):
            return
    except OutcomeUnknownError:
        raise
    except (PaimonError, OSError):
        FileStoreCommit(table).abort(messages)
        raise
    FileStoreCommit(table).abort(messages)
    raise ConflictError(
        f"Table {table.name} cannot be replaced: its schema was changed by another statement meanwhile.",
        hint="Nothing was changed by this statement. Run it again.",
    )


def _take_back(table: Table) -> None:
    """Remove the new schema unless a later schema or a snapshot depends on it."""
    latest = table.snapshots.latest()
    named = latest is not None and latest.schema_id >= table.schema.id
    if not named and table.schema_store.ids()[-1] == table.schema.id:
        table.file_io.delete(table.paths.schema(table.schema.id))

"""Overwrites of tables whose compactions write the changelog: their new files are merged before the commit.

The rows of an overwrite are in no changelog. Streams of such a table begin with the rows that compactions have moved
out of level 0, and expect the others in the changelog, so an overwrite must not leave files at level 0.

(docs/spec/semantics.md, G10 and D4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_spark.core.changelog.reported import first_reported_level
from paimon_spark.core.commit.change_set import promote_to_top
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.merge.config import needs_lookup
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import CompactGroup, run_group
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.spec.chain_tables import is_chain_table
from paimon_spark.spec.manifest import BucketKey


def out_of_level_0(table: Table, messages: Sequence[CommitMessage], runner: TaskRunner) -> list[CommitMessage]:
    """Return the messages of an overwrite, with the files of each bucket at the top level; nothing is committed.

    Files that do not overlap are moved; others are merged, and deleted then. Tables whose readers and streams include
    level 0 get the messages as they are.

    Args:
        table: the table with the options of the statement.
        messages: the messages of the writers.
        runner: runs the merges.

    Raises:
        PaimonError: a merge failed; the files of the messages are deleted.
    """
    if not table.is_primary_key_table or not (first_reported_level(table) or needs_lookup(table)):
        return list(messages)
    risen = promote_to_top(table, messages)
    tasks = _tasks(table, risen)
    if not tasks:
        return risen
    commit = FileStoreCommit(table)
    with commit.or_abort(risen):
        description = f"merge new files of {table.name}: {len(tasks)} buckets"
        merged = run_group(table, CompactGroup(tasks), runner, description)
    commit.abort([_left_behind(m) for m in merged])
    taken = {BucketKey(t.partition, t.bucket): {f.file_name for f in t.files} for t in tasks}
    rest = [_without(m, taken.get(BucketKey(m.partition, m.bucket), set())) for m in risen]
    return [*rest, *(replace(m, new_files=m.compact_after, compact_before=(), compact_after=()) for m in merged)]


def _tasks(table: Table, messages: Sequence[CommitMessage]) -> tuple[CompactTask, ...]:
    """Return a task of each bucket that has files at level 0."""
    top = table.stored_options.num_levels - 1
    found: dict[BucketKey, CompactTask] = {}
    for m in messages:
        low = tuple(f for f in m.new_files if f.level == 0)
        if not low or m.bucket < 0:
            continue
        task = found.get(BucketKey(m.partition, m.bucket)) or CompactTask(
            partition=m.partition,
            bucket=m.bucket,
            total_buckets=m.total_buckets,
            files=(),
            output_level=top,
            to_top=True,
            drop_deletes=not is_chain_table(table.options),
            reason="new files",
            changelog=False,
        )
        found[BucketKey(m.partition, m.bucket)] = replace(task, files=(*task.files, *low))
    return tuple(found.values())


def _left_behind(message: CommitMessage) -> CommitMessage:
    """Return the files that a merge has read and not kept, as those of an uncommitted message."""
    kept = {f.file_name for f in message.compact_after}
    files = tuple(f for f in message.compact_before if f.file_name not in kept)
    return CommitMessage(
        partition=message.partition, bucket=message.bucket, total_buckets=message.total_buckets, new_files=files
    )


def _without(message: CommitMessage, names: set[str]) -> CommitMessage:
    return replace(message, new_files=tuple(f for f in message.new_files if f.file_name not in names))

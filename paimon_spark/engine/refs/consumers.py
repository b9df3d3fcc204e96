"""Consumers: the next snapshot of each streaming reader. Snapshots from there on do not expire."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paimon_spark.core.maintenance.deletion import DELETE, WARN, WRITE, Action, SafeDeleter
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.refs import CONSUMER_PREFIX, RefStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, did_you_mean
from paimon_spark.fs.base import FileStatus
from paimon_spark.spec.identifier import check_name
from paimon_spark.spec.refs import Consumer


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """The change of one consumer: `next_snapshot` None deletes it."""

    name: str
    next_snapshot: int | None
    action: Action


@translate_io_errors()
def plan_reset(table: Table, name: str, next_snapshot: int | None = None) -> ConsumerPlan:
    """Plan moving a consumer of the table's branch to a snapshot or long-lived changelog, or deleting it.

    Nothing is changed.

    Raises:
        ArgumentError: the name is not a valid consumer name.
        NotFoundError: there is neither a snapshot nor a changelog of this id.
    """
    check_name(name, "consumer")
    path = table.paths.consumer(name)
    if next_snapshot is not None:
        if not table.file_io.exists(table.paths.changelog(next_snapshot)):
            table.snapshots.get(next_snapshot)
        size = len(Consumer(next_snapshot).to_json().encode())
        return ConsumerPlan(
            name, next_snapshot, Action(WRITE, path, size, f"consumer '{name}' reads snapshot {next_snapshot} next")
        )
    try:
        size = table.file_io.status(path).size
    except FileNotFoundError:
        near = did_you_mean(name, RefStore.of(table).consumer_names())
        reason = f"there is no consumer '{name}'" + (f". {near}" if near else "")
        return ConsumerPlan(name, None, Action(WARN, path, 0, reason))
    return ConsumerPlan(name, None, Action(DELETE, path, size, f"consumer '{name}' is deleted"))


@translate_io_errors()
def execute_reset(table: Table, plan: ConsumerPlan) -> bool:
    """Execute the plan; return whether anything changed."""
    refs = RefStore.of(table)
    if plan.next_snapshot is None:
        return refs.delete_consumer(plan.name)
    refs.write_consumer(plan.name, Consumer(plan.next_snapshot))
    return True


@dataclass(frozen=True, slots=True)
class ClearPlan:
    """The consumers to delete."""

    names: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_clear(table: Table, including: str | None = None, excluding: str | None = None) -> ClearPlan:
    """Plan the deletion of consumers of the table's branch; nothing is changed.

    Args:
        table: the table.
        including: regular expression that matches the whole name of a consumer to delete; all by default.
        excluding: regular expression that matches the whole name of a consumer to keep; none by default.

    Raises:
        ArgumentError: one of the two is not a regular expression.
    """
    wanted = _pattern(including, "including_consumers")
    kept = _pattern(excluding, "excluding_consumers")
    chosen = [
        f
        for f in RefStore.of(table).consumer_files()
        if (wanted is None or wanted.fullmatch(_name(f))) and not (kept is not None and kept.fullmatch(_name(f)))
    ]
    actions = tuple(Action(DELETE, f.path, f.size, f"consumer '{_name(f)}' is deleted") for f in chosen)
    return ClearPlan(tuple(_name(f) for f in chosen), actions)


@translate_io_errors()
def execute_clear(table: Table, plan: ClearPlan, trash: TrashRun | None = None) -> tuple[str, ...]:
    """Delete the consumers of a plan, or move them to the trash; return those that existed."""
    deleter = SafeDeleter(table, trash)
    return tuple(n for n, a in zip(plan.names, plan.actions, strict=True) if deleter.delete_reference(a).files)


def _name(file: FileStatus) -> str:
    return file.name.removeprefix(CONSUMER_PREFIX)


def _pattern(text: str | None, parameter: str) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as e:
        raise ArgumentError(
            f"The argument '{parameter}' holds '{text}', which is not a regular expression: {e}.",
            hint="Write a pattern such as 'etl_.*'.",
        ) from e

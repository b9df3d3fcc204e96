"""Consumers: the next snapshot of each streaming reader. Snapshots from there on do not expire."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.maintenance.deletion import DELETE, WARN, WRITE, Action
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.errors import did_you_mean
from paimon_spark.spec.identifier import check_name
from paimon_spark.spec.refs import consumer_json


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """The change of one consumer: `next_snapshot` None deletes it."""

    name: str
    next_snapshot: int | None
    action: Action


def plan_reset(table: Table, name: str, next_snapshot: int | None = None) -> ConsumerPlan:
    """Plan moving a consumer of the table's branch to a snapshot, or deleting it; nothing is changed.

    Raises:
        ArgumentError: the name is not a valid consumer name.
        NotFoundError: there is no such snapshot.
    """
    check_name(name, "consumer")
    path = table.paths.consumer(name)
    if next_snapshot is not None:
        table.snapshots.get(next_snapshot)
        size = len(consumer_json(next_snapshot).encode())
        return ConsumerPlan(
            name, next_snapshot, Action(WRITE, path, size, f"consumer '{name}' reads snapshot {next_snapshot} next")
        )
    try:
        size = table.file_io.status(path).size
    except FileNotFoundError:
        near = did_you_mean(name, RefStore.of(table).consumer_names())
        told = f"there is no consumer '{name}'" + (f". {near}" if near else "")
        return ConsumerPlan(name, None, Action(WARN, path, 0, told))
    return ConsumerPlan(name, None, Action(DELETE, path, size, f"consumer '{name}' is deleted"))


def execute_reset(table: Table, plan: ConsumerPlan) -> bool:
    """Execute the plan; return whether anything changed."""
    refs = RefStore.of(table)
    if plan.next_snapshot is None:
        return refs.delete_consumer(plan.name)
    refs.write_consumer(plan.name, plan.next_snapshot)
    return True

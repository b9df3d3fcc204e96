"""Marking partitions as done, so that jobs that wait for them can start (docs/spec/semantics.md, E8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.success_files import SUCCESS_FILE, write_success_file
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.predicate import Comparison, IsNull, Predicate, split_and
from paimon_spark.spec.rows import encode_row

_ACTION = "success-file"


@dataclass(frozen=True, slots=True)
class MarkDonePlan:
    """The success files to write."""

    table: Table
    paths: tuple[str, ...]
    actions: tuple[Action, ...]
    empty: tuple[str, ...] = ()
    """Those of the partitions that have no data."""


@translate_io_errors()
def plan_mark_done(table: Table, asked: Sequence[tuple[str, Predicate]]) -> MarkDonePlan:
    """Plan the success files of partitions; nothing is changed.

    A partition that is given by all of its columns may be empty: jobs that wait for it do so for an hour without rows,
    too.

    Args:
        table: the table.
        asked: filters over the partition columns, each with its text.

    Raises:
        ArgumentError: a filter without all partition columns matches no partition.
        UnsupportedError: `partition.mark-done-action` has an action other than ``success-file``.
    """
    others = [a for a in table.options.names("partition.mark-done-action") if a != _ACTION]
    if others:
        raise UnsupportedError(
            f"The option 'partition.mark-done-action' of table {table.name} has the action '{others[0]}', which is not "
            "supported.",
            hint=f"Set it to '{_ACTION}'.",
        )
    known = {e.partition for e in live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)}
    chosen: dict[bytes, str] = {}
    for text, predicate in asked:
        found = matching_partitions(table, known, predicate) or _named(table, predicate)
        if not found:
            raise ArgumentError(
                f"Table {table.name} has no partition {text}.",
                hint=f"Give values of all partition columns, {', '.join(table.schema.partition_keys)}, to mark one "
                "without data.",
            )
        chosen |= {p: table.partition_text(p) for p in sorted(found)}
    paths = tuple(f"{table.paths.partition_dir(p)}/{SUCCESS_FILE}" for p in chosen)
    actions = tuple(
        Action(WRITE, path, 0, f"{text} is done") for path, text in zip(paths, chosen.values(), strict=True)
    )
    return MarkDonePlan(table, paths, actions, tuple(text for p, text in chosen.items() if p not in known))


def _named(table: Table, predicate: Predicate) -> set[bytes]:
    """Return the partition that a filter names by the values of all columns, if it does."""
    leaves = [leaf for leaf in split_and(predicate) if isinstance(leaf, Comparison | IsNull)]
    values = {leaf.column: leaf.value if isinstance(leaf, Comparison) else None for leaf in leaves}
    names = table.schema.partition_keys
    return {encode_row([values[n] for n in names], table.partition_types)} if set(names) <= values.keys() else set()


@translate_io_errors()
def execute_mark_done(plan: MarkDonePlan, clock_millis: int) -> None:
    """Write the success files; existing ones keep their creation time."""
    for path in plan.paths:
        write_success_file(plan.table.file_io, path, clock_millis)

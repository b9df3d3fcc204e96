"""The data_evolution_merge_into procedure: new values of columns of the rows that a join with a source matches.

It only updates. Each row range with a matched row gets a file of the changed columns; row ids stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.merge_into import READ, MergePlan, MergeRequest, PreparedMerge
from paimon_spark.errors import UnsupportedError, UsageError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.identifier import Identifier

UPDATE_SET = "matched_update_set"
"""The name of the argument with the new values."""


class ColumnMerger(Protocol):
    """Prepares merges of columns, which join tables."""

    def prepare_column_merge(
        self, table: Table, name: Identifier, request: MergeRequest, updates: str
    ) -> PreparedMerge:
        """Validate a merge of columns into the table called `name`, and prepare it."""


def plan_column_merge(
    table: Table, name: Identifier, request: MergeRequest, updates: str, merger: ColumnMerger
) -> MergePlan:
    """Validate a merge of columns against the tables and prepare it; its request has no actions.

    Raises:
        UnsupportedError: the target is not a table with data evolution, or cannot be written.
        UsageError: the target has no rows.
        ArgumentError: the arguments do not fit the tables.
    """
    if not evolves(table):
        raise UnsupportedError(
            f"Table {table.name} has no 'data-evolution.enabled' = 'true', so data_evolution_merge_into cannot change "
            "it.",
            hint="Use sys.merge_into for a table with a primary key, and the statement MERGE INTO for any table.",
        )
    check_writable(table.effective_schema)
    snapshot = table.snapshots.latest()
    if snapshot is None:
        raise UsageError(
            f"Table {table.name} is empty, so no row of it can match.", hint="Add rows with INSERT INTO first."
        )
    prepared = merger.prepare_column_merge(table, name, request, updates)
    return MergePlan(table, prepared, snapshot.id, tuple(_actions(table, request, updates)))


def _actions(table: Table, request: MergeRequest, updates: str) -> Iterator[Action]:
    entries = scan(table, table.snapshots.latest()).entries
    size = sum(e.file.file_size for e in entries)
    count = f"{len(entries)} file{'' if len(entries) == 1 else 's'}"
    yield Action(READ, table.path, size, f"{count}, joined with {request.source_table} on {request.condition}")
    yield Action(WRITE, table.path, 0, f"files with the columns of {updates}, for each row range with a matched row")

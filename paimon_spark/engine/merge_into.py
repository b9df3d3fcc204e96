"""The merge_into procedure: its request, validation and result.

It has the semantics of Flink's merge, not of SQL's: each action is a separate query over the table's initial state, all
resulting rows are written together with a row kind, and multiple matches of source rows are not detected
(docs/spec/semantics.md, section 18.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from paimon_spark.core.commit.committer import Committed
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WriteResult
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.spec.merge_rules import check_statement

READ = "read"
STAR = "*"


class Clause(StrEnum):
    """The actions of a merge, in the order in which their rows are written."""

    MATCHED_UPSERT = "matched-upsert"
    BY_SOURCE_UPSERT = "not-matched-by-source-upsert"
    MATCHED_DELETE = "matched-delete"
    BY_SOURCE_DELETE = "not-matched-by-source-delete"
    INSERT = "not-matched-insert"

    @property
    def kind(self) -> RowKind:
        """Return the row kind of the action."""
        if self is Clause.INSERT:
            return RowKind.INSERT
        return RowKind.UPDATE_AFTER if self in (Clause.MATCHED_UPSERT, Clause.BY_SOURCE_UPSERT) else RowKind.DELETE

    @property
    def argument(self) -> str:
        """Return the prefix of the action's arguments."""
        return self.value.replace("-", "_")


CONDITIONED_TOGETHER = (
    (Clause.MATCHED_UPSERT, Clause.MATCHED_DELETE),
    (Clause.BY_SOURCE_UPSERT, Clause.BY_SOURCE_DELETE),
)
"""Pairs of actions on the same rows; if both are present, each requires a condition."""


@dataclass(frozen=True, slots=True)
class MergeAction:
    """One action: its condition, and the new values of the rows (None: they are deleted)."""

    clause: Clause
    condition: str | None
    values: str | None = None

    @property
    def condition_argument(self) -> str:
        """Return the name of the condition argument."""
        return f"{self.clause.argument}_condition"

    @property
    def values_argument(self) -> str:
        """Return the name of the new values argument."""
        return f"{self.clause.argument}_{'values' if self.clause is Clause.INSERT else 'setting'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """The arguments of a merge; `actions` are in the order of `Clause`."""

    source_table: str
    condition: str
    actions: tuple[MergeAction, ...]
    target_alias: str | None = None
    source_sqls: str | None = None


class PreparedMerge(Protocol):
    """A merge with all fragments validated against the tables; nothing has run yet."""

    def run(self) -> WriteResult:
        """Run the merge once, as one job and one commit."""


class Merger(Protocol):
    """Prepares merges, which join tables."""

    def prepare_merge(self, table: Table, name: Identifier, request: MergeRequest) -> PreparedMerge:
        """Validate a merge into the table called `name`, and prepare it."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A prepared merge and the snapshot that it starts from."""

    table: Table
    prepared: PreparedMerge
    snapshot_before: int | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The result of a merge."""

    snapshot_before: int | None
    snapshot_after: int | None
    files_out: int = 0
    bytes_out: int = 0
    rows_out: int = 0
    committed: bool = False


def plan_merge(table: Table, name: Identifier, request: MergeRequest, merger: Merger) -> MergePlan:
    """Validate a merge against the tables and prepare it; its request has passed `check_request`.

    Raises:
        UnsupportedError: the target does not support merges, or cannot be written.
        ArgumentError: the arguments do not fit the tables.
    """
    check_target(table)
    if any(a.clause.kind is RowKind.DELETE for a in request.actions):
        check_statement(table.schema, table.options, Operation.DELETE)
    check_writable(table.effective_schema)
    snapshot = table.snapshots.latest()
    prepared = merger.prepare_merge(table, name, request)
    return MergePlan(table, prepared, snapshot.id if snapshot else None, tuple(_actions(table, request)))


def check_target(table: Table) -> None:
    """Raise if a table does not support merges.

    Raises:
        UnsupportedError: it has no primary key, or a merge engine other than deduplicate and partial-update.
    """
    if not table.is_primary_key_table:
        raise UnsupportedError(
            f"Table {table.name} has no primary key, so merge_into cannot change it.",
            hint="Use the statement MERGE INTO, which changes any table.",
        )
    check_statement(table.schema, table.options, Operation.MERGE)


def check_request(request: MergeRequest) -> None:
    """Raise if actions contradict each other.

    Raises:
        ArgumentError: there is no action, an action lacks an argument, or two actions on the same rows lack conditions.
    """
    actions = {a.clause: a for a in request.actions}
    if not actions:
        raise ArgumentError(
            "merge_into needs at least one action.",
            hint="Give matched_upsert_setting, not_matched_insert_values, matched_delete_condition, "
            "not_matched_by_source_upsert_setting or not_matched_by_source_delete_condition.",
        )
    for action in request.actions:
        if action.clause.kind is not RowKind.DELETE and action.values is None:
            raise ArgumentError(
                f"merge_into was given '{action.condition_argument}' without '{action.values_argument}'.",
                hint=f"Give '{action.values_argument}' too, or leave the condition out.",
            )
    for pair in CONDITIONED_TOGETHER:
        both = [actions[c] for c in pair if c in actions]
        lacking = [a.condition_argument for a in both if a.condition is None]
        if len(both) == len(pair) and lacking:
            raise ArgumentError(
                f"merge_into was given {pair[0]} and {pair[1]}, but not '{lacking[0]}'.",
                hint="With both actions, each needs its condition.",
            )
    by_source = actions.get(Clause.BY_SOURCE_UPSERT)
    if by_source is not None and (by_source.values or "").strip() == STAR:
        raise ArgumentError(
            f"'{by_source.values_argument}' is '*', but there is no source row to take values from.",
            hint="Write column = expression, separated by commas.",
        )


def _actions(table: Table, request: MergeRequest) -> Iterator[Action]:
    snapshot = table.snapshots.latest()
    entries = scan(table, snapshot).entries
    size = sum(e.file.file_size for e in entries)
    count = f"{len(entries)} file{'' if len(entries) == 1 else 's'}"
    what = f"{count} of snapshot {snapshot.id}" if snapshot else "no files"
    yield Action(READ, table.path, size, f"{what}, joined with {request.source_table} on {request.condition}")
    for action in request.actions:
        where = f" where {action.condition}" if action.condition else ""
        values = f": {action.values}" if action.values else ""
        yield Action(WRITE, table.path, 0, f"{action.clause}{where} as {action.clause.kind.short}{values}")


def execute_merge(plan: MergePlan) -> MergeResult:
    """Run a prepared merge as one snapshot; none if no row matches an action.

    Raises:
        PaimonError: the merge failed; the table is unchanged.
    """
    result = plan.prepared.run()
    if not isinstance(result.commit, Committed):
        return MergeResult(snapshot_before=plan.snapshot_before, snapshot_after=plan.snapshot_before)
    last = result.compacted.snapshot_after if result.compacted is not None else None
    return MergeResult(
        snapshot_before=plan.snapshot_before,
        snapshot_after=max(result.commit.snapshot_ids[-1], last or 0),
        files_out=len(result.files),
        bytes_out=sum(f.file_size for f in result.files),
        rows_out=sum(f.row_count for f in result.files),
        committed=True,
    )

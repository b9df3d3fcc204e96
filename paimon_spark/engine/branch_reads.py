"""What reads over several branches have in common: the state of another branch, and plans without some partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.scan_modes import scan_start
from paimon_spark.core.metadata.time_travel import ReadStart, resolve_snapshot
from paimon_spark.core.table import TRAVEL_OPTIONS, Table
from paimon_spark.engine.select import ReadOptions, SelectPlan, plan_select
from paimon_spark.errors import UsageError
from paimon_spark.spec.chain_tables import DELTA_BRANCH, SNAPSHOT_BRANCH
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.support import Scope, scope_of
from paimon_spark.spec.types import DataType, not_null

FALLBACK = "scan.fallback-branch"
PRIMARY = "scan.primary-branch"
OTHER_BRANCH = (FALLBACK, PRIMARY, SNAPSHOT_BRANCH, DELTA_BRANCH)
"""Options that name other branches to read from."""
_OWN_OPTIONS = (*TRAVEL_OPTIONS, "scan.mode", FALLBACK, PRIMARY)
"""Options that do not apply to another branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is read; the attributes are the arguments of `plan_select`."""

    columns: Sequence[str] | None
    predicate: Predicate | None
    limit: int | None
    version: str | int | None
    timestamp_millis: int | None
    how: ReadOptions

    def plan(self, table: Table, limit: int | None, begin: ReadStart | None = None) -> SelectPlan:
        """Plan the query of one branch, from the result of `start` if that is given."""
        return plan_select(
            table,
            columns=self.columns,
            predicate=self.predicate,
            limit=limit,
            version=self.version,
            timestamp_millis=self.timestamp_millis,
            how=self.how,
            begin=begin,
        )

    def start(self, table: Table) -> ReadStart:
        """Return where the query starts to read a branch.

        Raises:
            AccessDeniedError: the user does not have the privilege SELECT.
            NotFoundError: there is no such snapshot or tag.
            OptionError: scan options contradict each other, or do not read the whole of one snapshot.
        """
        table.require(Privilege.SELECT)
        found = resolve_snapshot(
            table, version=self.version, timestamp_millis=self.timestamp_millis, local_zone=self.how.local_zone
        )
        return ReadStart(*found)

    def reads_changes(self, table: Table) -> bool:
        """Return whether the query reads changes instead of a state."""
        return self.version is None and self.timestamp_millis is None and scan_start(table.options).reads_changes

    def travels(self, table: Table) -> bool:
        """Return whether the query, or an option of the table, selects the snapshot to read."""
        return travels(table, self.version, self.timestamp_millis)


def travels(table: Table, version: str | int | None, timestamp_millis: int | None) -> bool:
    """Return whether a version, a time or an option of the table selects the snapshot to read."""
    values = table.options.values
    optional = any((values.get(k) or "").strip() for k in (*TRAVEL_OPTIONS, "scan.mode"))
    return version is not None or timestamp_millis is not None or optional


def other_branch(table: Table, name: str) -> Table:
    """Return another branch of a table, with the options of the statement.

    Raises:
        NotFoundError: there is no such branch.
        UsageError: the branches have different columns.
    """
    other = on_branch(table, name)
    _check_columns(table.schema, other.schema, table, name)
    given = {k: v for k, v in table.options.values.items() if k not in _OWN_OPTIONS and scope_of(k) is Scope.READ}
    return other.with_options(given) if given else other


def _check_columns(one: TableSchema, other: TableSchema, table: Table, name: str) -> None:
    if _shape(one) != _shape(other) or one.partition_keys != other.partition_keys:
        raise columns_differ(table, table.branch, name)


def columns_differ(table: Table, one: str, other: str) -> UsageError:
    """Return the error for branches with different columns."""
    return UsageError(
        f"The branches '{one}' and '{other}' of table {table.identifier.base.full_name} cannot be read together: their "
        "columns differ.",
        hint="Give both branches the same columns and partition columns with ALTER TABLE.",
    )


def _shape(schema: TableSchema) -> list[tuple[str, DataType]]:
    """Return names and types of the columns, without nullability: keys are NOT NULL in one branch only."""
    return [(f.name, not_null(f.type)) for f in schema.fields]


def start_at(branch: Table, moment: int | None) -> ReadStart:
    """Return where a read of another branch starts: its latest snapshot, or that of a moment with its own schema."""
    if moment is None:
        return ReadStart(branch.snapshots.latest(), branch.schema)
    found = branch.snapshots.at_or_before(moment)
    return ReadStart(found, branch.schema if found is None else branch.schema_store.get(found.schema_id))


def without_partitions(plan: SelectPlan, partitions: Collection[bytes]) -> SelectPlan:
    """Return a plan without the splits of some partitions."""
    splits = tuple(s for s in plan.splits if s.partition not in partitions)
    if len(splits) == len(plan.splits):
        return plan
    counts = [s.row_count for s in splits]
    known = [c for c in counts if c is not None]
    rows = sum(known) if plan.row_count is not None and len(known) == len(counts) else None
    return replace(plan, splits=splits, row_count=rows)

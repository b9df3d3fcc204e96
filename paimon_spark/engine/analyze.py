"""ANALYZE TABLE: stores statistics of the rows of a table in a new snapshot of the kind ANALYZE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.committer import CommitResult, FileStoreCommit
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.statistics import write_statistics
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError, OutcomeUnknownError, PaimonError, UnsupportedError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.quoted_text import sql_path
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.table_statistics import ColumnStatistics, TableStatistics
from paimon_spark.spec.types import AtomicType, DataType, RowType, TypeRoot, atomic_text

_WITHOUT = (TypeRoot.VARIANT, TypeRoot.BLOB, TypeRoot.TIME)


@dataclass(frozen=True, slots=True)
class AnalyzePlan:
    """The snapshot whose rows are analyzed (None: there are none), and the columns."""

    snapshot: Snapshot | None
    columns: tuple[str, ...] = ()


@translate_io_errors()
def plan_analyze(table: Table, columns: Sequence[str] = (), *, all_columns: bool = False) -> AnalyzePlan:
    """Plan an ANALYZE of the latest snapshot; nothing is changed.

    Args:
        table: the table.
        columns: columns to analyze; names are compared without regard to case if none matches exactly.
        all_columns: analyze all columns.

    Raises:
        NotFoundError: there is no such column.
        UnsupportedError: a column has a type without statistics, or the table is not supported for writes.
    """
    check_writable(table.effective_schema)
    names = table.schema.field_names if all_columns else tuple(dict.fromkeys(_column(table, c) for c in columns))
    for name in names:
        if not _has_statistics(t := table.schema.field(name).type):
            raise UnsupportedError(
                f"The column '{name}' of type {_sql_name(t)} cannot be analyzed.", hint=_choices(table)
            )
    return AnalyzePlan(table.snapshots.latest(), names)


def _has_statistics(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root not in _WITHOUT


def _sql_name(t: DataType) -> str:
    if isinstance(t, AtomicType):
        return atomic_text(replace(t, nullable=True))
    return "STRUCT" if isinstance(t, RowType) else type(t).__name__.removesuffix("Type").upper()


def _choices(table: Table) -> str:
    names = [sql_path(f.name) for f in table.schema.fields if _has_statistics(f.type)]
    if not names:
        return "No column of the table can be analyzed: leave FOR COLUMNS out."
    return f"Analyze the other columns: FOR COLUMNS {', '.join(names)}."


def _column(table: Table, name: str) -> str:
    known = table.schema.field_names
    found = name if name in known else next((k for k in known if k.lower() == name.lower()), None)
    if found is None:
        raise NotFoundError(
            f"Table {table.name} has no column '{name}' to analyze.",
            hint=f"Its columns are {', '.join(known)}.",
            kind=ErrorKind.COLUMN_NOT_FOUND,
        )
    return found


@translate_io_errors()
def commit_statistics(
    table: Table, snapshot: Snapshot, rows: int, columns: Mapping[str, ColumnStatistics]
) -> CommitResult:
    """Write the statistics of a snapshot and commit them.

    Args:
        table: the table at the schema that the rows were read with.
        snapshot: the snapshot whose rows were analyzed.
        rows: number of its merged rows.
        columns: statistics by column.
    """
    store = ManifestStore(table)
    size = sum(e.file.file_size for e in live_entries(store, store.data_manifests(snapshot)))
    total = max(snapshot.total_record_count, 1)
    statistics = TableStatistics(
        snapshot_id=snapshot.id,
        schema_id=table.schema.id,
        merged_record_count=rows,
        merged_record_size=size * min(rows, total) // total,
        col_stats=dict(columns),
    )
    name = write_statistics(table, statistics)
    try:
        return FileStoreCommit(table).commit_plan(
            lambda _store, _base: Change(kind=CommitKind.ANALYZE, statistics=name), CommitKind.ANALYZE
        )
    except OutcomeUnknownError:
        raise
    except (PaimonError, OSError):
        delete_best_effort(table.file_io, [table.paths.statistics(name)])
        raise

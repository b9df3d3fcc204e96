"""Registry of system tables: names, columns and rows.

Times are wall-clock times without time zone: in the zone given by the caller, by default that of this process, as
Paimon uses that of its JVM. Creation times of files are stored as wall-clock times and shown unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import pyarrow as pa

from paimon_spark.core.metadata.time_travel import resolve_snapshot
from paimon_spark.core.system import content, history
from paimon_spark.core.system.columns import COLUMNS
from paimon_spark.core.system.context import SystemContext
from paimon_spark.core.table import Table
from paimon_spark.errors import NotFoundError, UnsupportedError, did_you_mean
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.snapshot import Snapshot

_Rows = Callable[[SystemContext], Iterable[tuple[Any, ...]]]

_ROWS: Mapping[str, _Rows] = {
    "snapshots": history.snapshots,
    "schemas": history.schemas,
    "options": history.options,
    "tags": history.tags,
    "branches": history.branch_rows,
    "consumers": history.consumers,
    "statistics": history.statistics,
    "aggregation_fields": history.aggregation_fields,
    "files": content.files,
    "file_key_ranges": content.file_key_ranges,
    "manifests": content.manifests,
    "partitions": content.partitions,
    "buckets": content.buckets,
    "table_indexes": content.table_indexes,
}
_BY_SNAPSHOT = ("files", "file_key_ranges", "manifests", "partitions", "buckets", "table_indexes", "statistics")


@dataclass(frozen=True, slots=True)
class SystemScan:
    """A system table that scans the table's own rows.

    `top_level_only`: for a primary key table, only files of the highest level, which need no merge. `keep_kinds`: rows
    of all kinds, with a first column `rowkind` (nullable string: +I, -U, +U, -D). `pairs`: columns are arrays, and the
    two rows of an update are one. `tracking`: the tracking columns are appended; only for tables with row tracking.
    """

    top_level_only: bool = False
    keep_kinds: bool = False
    pairs: bool = False
    tracking: bool = False


SYSTEM_SCANS: Mapping[str, SystemScan] = {
    "ro": SystemScan(top_level_only=True),
    "audit_log": SystemScan(keep_kinds=True),
    "binlog": SystemScan(keep_kinds=True, pairs=True),
    "row_tracking": SystemScan(tracking=True),
}
_UNSUPPORTED = ("compact_buckets", "file_monitor", "file_indexes")

SYSTEM_TABLE_NAMES = tuple(sorted([*_ROWS, *SYSTEM_SCANS]))


def shows_sequence_numbers(table: Table) -> bool:
    """Return whether the system tables with row kinds have the column ``_SEQUENCE_NUMBER``, too."""
    return table.is_primary_key_table and table.options.flag("table-read.sequence-number.enabled")


def check_system_table(name: str) -> str:
    """Return the canonical name of a system table.

    Raises:
        NotFoundError: there is no such system table.
        UnsupportedError: the system table exists in Paimon but is not implemented.
    """
    known = name.lower()
    if known in SYSTEM_TABLE_NAMES:
        return known
    if known in _UNSUPPORTED:
        raise UnsupportedError(
            f"The system table ${known} is not supported.", hint=f"There are: {', '.join(SYSTEM_TABLE_NAMES)}."
        )
    near = did_you_mean(name, SYSTEM_TABLE_NAMES)
    raise NotFoundError(
        f"There is no system table ${name}.", hint=near or f"There are: {', '.join(SYSTEM_TABLE_NAMES)}."
    )


def system_table_schema(name: str) -> pa.Schema:
    """Return the columns of a system table that is not a scan."""
    return COLUMNS[check_system_table(name)]


def system_table(table: Table, name: str, *, snapshot: Snapshot | None = None, zone: tzinfo | None = None) -> pa.Table:
    """Return the rows of a system table that is not a scan.

    Args:
        table: the table.
        name: the part after the dollar sign.
        snapshot: snapshot of the content tables; None means that of the table's scan options, or the latest.
        zone: time zone for wall-clock times; None is the zone of this process.

    Raises:
        NotFoundError: there is no such system table.
        UnsupportedError: it is a scan of the table's own rows.
        AccessDeniedError: it shows values of the rows, and the user does not have the privilege SELECT.
    """
    known = check_system_table(name)
    if known in _BY_SNAPSHOT:
        table.require(Privilege.SELECT)
    if known in SYSTEM_SCANS:
        raise UnsupportedError(
            f"The system table ${known} shows rows of the table, not metadata.", hint="Query it with SQL."
        )
    if snapshot is None and known in _BY_SNAPSHOT:
        snapshot, schema = resolve_snapshot(table)
        table = table.as_of(schema)
    schema_of_rows = COLUMNS[known]
    rows = list(_ROWS[known](SystemContext(table, snapshot, zone)))
    columns = zip(*rows, strict=True) if rows else [()] * len(schema_of_rows)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema_of_rows, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema_of_rows)

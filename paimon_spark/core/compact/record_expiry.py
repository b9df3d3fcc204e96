"""Record-level expiry: compaction drops rows whose time is too long ago (docs/spec/semantics.md, W23 and W24)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.merge.key_groups import retracts
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stats import stats_view
from paimon_spark.spec.types import DataField

_MILLIS_FROM = 1_000_000_000_000
"""From this value on, a BIGINT is in milliseconds instead of seconds."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The rows of a table that have expired.

    Attributes:
        table: the table.
        field: the column with the time of a row.
        limit: the earliest time that has not expired, in epoch seconds.
        schemas: the schemas of the table's files.
    """

    table: Table
    field: DataField
    limit: int
    schemas: FileSchemas

    @classmethod
    def of(cls, table: Table, now_seconds: int) -> RecordExpiry | None:
        """Return the expiry of a table; None if its rows do not expire."""
        options = table.options
        age = options.duration_ms_or_none("record-level.expire-time")
        if age is None or not table.is_primary_key_table:
            return None
        time_field = table.schema.field(options.word("record-level.time-field"))
        return cls(table, time_field, now_seconds - age // 1000, FileSchemas(table))

    def may_be_in(self, file: DataFileMeta) -> bool:
        """Return whether the statistics of a file show that a row of it has expired."""
        written = self.schemas.of(file.schema_id)
        found = stats_view(file, written, self.table.schema).get(self.field.name)
        return found is not None and found.min is not None and _seconds_of(found.min) < self.limit

    def without_expired(self, rows: pa.Table) -> pa.Table:
        """Return the rows that have not expired."""
        if self.field.name not in rows.column_names:
            return rows
        expired = self.expired(rows)
        return rows.filter(pa.array(~expired)) if expired.any() else rows

    def expired(self, rows: pa.Table) -> Mask:
        """Return which rows have expired; retracts do not, nor do rows without a time.

        A retract stays because it hides older rows, which a query would return again.
        """
        column = one_chunk(rows.column(self.field.name))
        found = (_seconds(column) < self.limit) & ~retracts(rows)
        return found & np.asarray(column.is_valid()) if column.null_count else found


def _seconds(column: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_timestamp(column.type):
        return _truncated(values_of(column.view(pa.int64())), _PER_SECOND[column.type.unit])
    values = values_of(column).astype(np.int64, copy=False)
    return np.where(values >= _MILLIS_FROM, values // 1000, values) if column.type == pa.int64() else values


def _truncated(values: I64, by: int) -> I64:
    """Return whole seconds, rounded towards 1970."""
    return values // by + ((values % by != 0) & (values < 0))


def _seconds_of(value: int | Timestamp) -> int:
    if isinstance(value, Timestamp):
        return int(value.millis / 1000)
    return value // 1000 if value >= _MILLIS_FROM else value

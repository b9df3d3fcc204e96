"""Statistics files of ANALYZE TABLE (docs/spec/storage.md, section 15)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS, Int, Long
from paimon_spark.spec.literals import timestamp_text, value_text
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stored_json import json_object, keys_of, missing, read_as, wrong_type
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column. `min` and `max` are texts; lengths are in bytes."""

    col_id: Int
    distinct_count: Long | None = None
    min: str | None = None
    max: str | None = None
    null_count: Long | None = None
    avg_len: Long | None = None
    max_len: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of a table at a snapshot: merged rows, their size in bytes, and statistics by column."""

    snapshot_id: Long
    schema_id: Long
    merged_record_count: Long | None = None
    merged_record_size: Long | None = None
    col_stats: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the file's text."""
        out = _plain(self, skip="colStats")
        out["colStats"] = {name: _plain(stats) for name, stats in self.col_stats.items()}
        return json.dumps(out, indent=2)

    @property
    def columns_json(self) -> str:
        """Return the statistics of the columns as the text that `$statistics` shows."""
        columns = {name: _plain(stats) for name, stats in self.col_stats.items()}
        return json.dumps(columns, indent=2, separators=(",", " : "), ensure_ascii=False) if columns else "{ }"


def parse_statistics(text: str | bytes, where: str) -> TableStatistics:
    """Parse a statistics file.

    Raises:
        CorruptTableError: it is not JSON, a required key is missing, or a value has the wrong type.
    """
    try:
        raw = json_object(text)
        columns = raw.get("colStats")
        if columns is None:
            columns = {}
        if not isinstance(columns, dict):
            raise wrong_type("colStats", columns)
        return read_as(TableStatistics, {**raw, "colStats": {k: _column(k, v) for k, v in columns.items()}})
    except ValueError as e:
        raise CorruptTableError(
            f"The statistics file {where} is malformed: {e}.", hint="Run ANALYZE TABLE again."
        ) from e


def statistics_text(value: Any, t: DataType) -> str | None:
    """Return a minimum or maximum of a column of type `t` as Paimon reads it; None if it has no such text.

    Dates are days after 1970. Paimon fails on every commit to a table whose statistics it cannot read.
    """
    if value is None or not isinstance(t, AtomicType):
        return None
    if not isinstance(value, Timestamp):
        return value_text(value, t)
    if not LEAST_MILLIS <= value.millis <= MOST_MILLIS:
        return None
    return timestamp_text(value, digits=t.precision or 0, separator=" ")


def statistics_value(text: str | None, t: DataType) -> Any:
    """Return the minimum or maximum of a column of type `t` as a value; None if the text is not a value of it."""
    if text is None or not isinstance(t, AtomicType):
        return None
    try:
        if t.root in _INTEGERS:
            return int(text)
        if t.root in (TypeRoot.DOUBLE, TypeRoot.FLOAT):
            return float(text)
        if t.root is TypeRoot.DECIMAL:
            return Decimal(text)
        if t.root is TypeRoot.BOOLEAN:
            return {"true": True, "false": False}.get(text)
        return _timestamp(text) if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) else None
    except (ValueError, ArithmeticError):
        return None


def _timestamp(text: str) -> Timestamp:
    moment = datetime.fromisoformat(text[: len("2024-01-01 00:00:00.123456")]).replace(tzinfo=UTC)
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return Timestamp(micros // 1000, micros % 1000 * 1000)


def _plain(stats: TableStatistics | ColumnStatistics, skip: str = "") -> dict[str, Any]:
    keys = keys_of(type(stats))  # type: ignore[arg-type]  # classes are hashable
    out = {key: getattr(stats, name) for key, name in keys.items() if key != skip}
    return {k: v for k, v in out.items() if v is not None}


def _column(name: str, raw: Any) -> ColumnStatistics:
    if not isinstance(raw, dict):
        raise missing(name) if raw is None else wrong_type(name, raw)
    return read_as(ColumnStatistics, raw)

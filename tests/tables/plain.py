"""Rows of Arrow tables as plain values that can be compared with what other engines wrote down as JSON."""

from __future__ import annotations

import decimal
import json
import math
import re
import tarfile
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog

DATABASE = "g"
_FRACTION = re.compile(r"(\d\d:\d\d:\d\d)\.(\d*?)0*(?=\")")
_EPOCH = datetime(1970, 1, 1)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def unpacked(archive: Path, warehouse: Path) -> Catalog:
    """Put a packed table into the database `g` of a new warehouse and open that."""
    target = warehouse / f"{DATABASE}.db"
    target.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    return open_catalog({"warehouse": str(warehouse)})


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Return the rows of an Arrow table as lists of plain values."""
    columns = [[plain(v) for v in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def plain(scalar: pa.Scalar) -> Any:
    """Return one Arrow value: times as text, binary as hex with 0x, decimals as text, structs and maps as objects."""
    t = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(t):
        return _time_text(scalar.value, t.unit)
    if pa.types.is_date(t):
        return str(scalar.as_py())
    if pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t):
        return "0x" + scalar.as_py().hex()
    if pa.types.is_struct(t):
        return {name: plain(scalar[name]) for name in scalar}
    if pa.types.is_map(t):
        return {str(plain(entry["key"])): plain(entry["value"]) for entry in scalar.values}
    if pa.types.is_list(t):
        return [plain(v) for v in scalar.values]
    return _simple(scalar.as_py())


def _simple(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _time_text(value: int, unit: str) -> str:
    seconds, rest = divmod(value, _TICKS[unit])
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.isoformat(sep=' ')}.{rest * (10**9 // _TICKS[unit]):09d}"


def keys(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return rows as sorted texts; fractions of seconds without their last zeros."""
    texts = (json.dumps(r, default=str, ensure_ascii=False, sort_keys=True) for r in rows)
    return sorted(_FRACTION.sub(lambda m: m[1] + ("." + m[2] if m[2] else ""), text) for text in texts)


def expected_of_sample(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> list[list[Any]]:
    """Return the rows of a sample's JSON, where times are ISO text and binary is hex without a prefix."""
    return [[_of_sample(v, f.type) for v, f in zip(row, schema, strict=True)] for row in rows]


def _of_sample(value: Any, t: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(t):
        return datetime.fromisoformat(value).isoformat(sep=" ")
    if pa.types.is_date(t):
        return str(date.fromisoformat(value))
    if pa.types.is_binary(t):
        return "0x" + value
    if pa.types.is_floating(t):
        return float(value)
    return value

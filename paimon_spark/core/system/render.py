"""Formatting of partitions, keys, statistics, types and times in system tables, equal to Paimon's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from paimon_spark.spec.literals import value_text
from paimon_spark.spec.rows import Timestamp, decode_row
from paimon_spark.spec.types import (
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
)

_EPOCH = datetime(1970, 1, 1)
_FIRST_MILLIS, _LAST_MILLIS = -62_135_510_400_000, 253_402_214_400_000
"""A day after the first midnight, and a day before the last, in the range of Python's `datetime`."""
_BINARY = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def partition_set(partition: bytes, fields: Sequence[DataField], zone: tzinfo | None = None) -> str:
    """Return the values of a partition as ``{v1, v2}``, with dates and times in SQL format."""
    types = [f.type for f in fields]
    values = decode_row(partition, types)
    return "{" + ", ".join(sql_text(v, t, zone) for v, t in zip(values, types, strict=True)) + "}"


def partition_spec(partition: bytes, fields: Sequence[DataField], default: str, zone: tzinfo | None = None) -> str:
    """Return a partition as ``k=v/k2=v2``, unescaped; null becomes the default partition name."""
    values = decode_row(partition, [f.type for f in fields])
    texts = (default if v is None else sql_text(v, f.type, zone) for v, f in zip(values, fields, strict=True))
    return "/".join(f"{f.name}={text}" for f, text in zip(fields, texts, strict=True))


def sql_text(value: Any, t: DataType, zone: tzinfo | None = None) -> str:
    """Return a value as cast to STRING; local timestamps as wall-clock time in `zone`."""
    if value is None:
        return "null"
    if isinstance(t, AtomicType) and t.root is TypeRoot.TIMESTAMP_LTZ:
        value = Timestamp(_local_millis(value.millis, zone), value.nano_of_milli)
    return value_text(value, t, legacy=False)


def raw_text(value: Any, t: DataType) -> str:
    """Return a value as displayed in keys and statistics: the stored form, dates as epoch days and bytes as hex."""
    if value is None:
        return "null"
    if isinstance(t, AtomicType) and t.root in _BINARY:
        return "0x" + bytes(value).hex()
    if not isinstance(t, AtomicType):
        return str(value)
    return value_text(value, t)


def key_list(key: bytes, fields: Sequence[DataField]) -> str | None:
    """Return a key row as ``[v1, v2]``, or None for the empty key of an append table."""
    if not fields:
        return None
    values = decode_row(key, [f.type for f in fields])
    return "[" + ", ".join(raw_text(v, f.type) for v, f in zip(values, fields, strict=True)) + "]"


def sorted_map(values: Mapping[str, str]) -> str:
    """Return ``{a=1, b=2}``, sorted by name."""
    return "{" + ", ".join(f"{k}={v}" for k, v in sorted(values.items())) + "}"


def text_list(values: Iterable[str]) -> str:
    """Return ``[a, b]``."""
    return "[" + ", ".join(values) + "]"


def flat_json(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def local_time(epoch_millis: int, zone: tzinfo | None = None) -> datetime:
    """Return the wall-clock time in `zone` (None: the zone of this process) of an epoch time."""
    moment = datetime.fromtimestamp(epoch_millis // 1000, UTC).astimezone(zone)
    return moment.replace(tzinfo=None) + timedelta(milliseconds=epoch_millis % 1000)


def stored_time(millis: int | None) -> datetime | None:
    """Return a wall-clock time that is stored as if in UTC, such as a file's creation time."""
    return None if millis is None else _EPOCH + timedelta(milliseconds=millis)


def _local_millis(epoch_millis: int, zone: tzinfo | None) -> int:
    """Return the wall-clock time in `zone` of any epoch time, including years outside Python's range."""
    known = min(max(epoch_millis, _FIRST_MILLIS), _LAST_MILLIS)
    return epoch_millis + _millis(local_time(known, zone)) - known


def _millis(wall: datetime) -> int:
    return (wall - _EPOCH) // timedelta(milliseconds=1)

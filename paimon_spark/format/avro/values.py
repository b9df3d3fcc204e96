"""Conversion of records that the Avro library has decoded to Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.avro.schema import INTEGERS
from paimon_spark.spec.types import ArrayType, AtomicType, DataType, RowType, entry_types


def column(values: list[Any], t: DataType) -> pa.Array:
    """Return the values of one Avro field, dates and times as integers, as an array of the Arrow type of `t`."""
    target = to_arrow_type(t)
    if isinstance(t, AtomicType):
        if t.root in INTEGERS:
            return pa.array(values, INTEGERS[t.root]).cast(target)
        return pa.array(values, target)
    mask = pa.array([v is None for v in values], pa.bool_())
    if isinstance(t, RowType):
        parts = [column([None if v is None else v.get(f.name) for v in values], f.type) for f in t.fields]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    if isinstance(t, ArrayType):
        flat = [e for v in values if v is not None for e in v]
        return pa.ListArray.from_arrays(_offsets(values), column(flat, t.element), type=target, mask=mask)
    key_type, value_type = entry_types(t)
    pairs = [p for v in values if v is not None for p in _pairs(v)]
    keys, items = column([k for k, _ in pairs], key_type), column([v for _, v in pairs], value_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target, mask=mask)


def _offsets(values: list[Any]) -> pa.Array:
    lengths = (0 if v is None else len(v) for v in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the key-value pairs of a map, which is encoded as an array of records unless its keys are strings."""
    return value.items() if isinstance(value, dict) else ((e["key"], e["value"]) for e in value)

"""The recorded table of casts, and how to compare columns with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot, parse_atomic
from tests.tables.cast_values import VALUES

DAY = 86_400_000
TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def recorded() -> dict[str, Any]:
    """Return what `record_casts` wrote."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "casts.json").read_text(encoding="utf-8"))
    return found


def column(values: list[Any], t: AtomicType) -> pa.Array:
    """Return recorded values as a column."""
    arrow = to_arrow_type(t)
    if t.root in TIMES:
        return pa.array(_ticks(values, arrow.unit), mask=_nulls(values)).view(arrow)
    if t.root is TypeRoot.DATE:
        days = np.array(
            [0 if v is None else np.datetime64(v.removeprefix("+"), "D").astype(int) for v in values], np.int32
        )
        return pa.array(days, mask=_nulls(values)).view(arrow)
    if t.root is TypeRoot.TIME:
        millis = [None if v is None else v if isinstance(v, int) else _millis(v) for v in values]
        return pa.array(millis, pa.int32()).view(arrow)
    if pa.types.is_floating(arrow):
        return pa.array([None if v is None else float(v) for v in values], pa.float64()).cast(arrow, safe=False)
    if pa.types.is_decimal(arrow):
        return pa.array(values, pa.string()).cast(arrow)
    if pa.types.is_binary(arrow):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], arrow)
    return pa.array(values, arrow)


def _nulls(values: list[Any]) -> np.ndarray:
    return np.array([v is None for v in values])


def _millis(clock: str) -> int:
    return int(np.datetime64(f"1970-01-01T{clock}", "ms").astype(int))


def _ticks(values: list[Any], unit: str) -> np.ndarray:
    """Return ISO texts in a unit; digits that it cannot tell are cut."""
    out = [np.datetime64(0, unit) if v is None else np.datetime64(v.removeprefix("+"), unit) for v in values]
    return np.array(out, dtype=f"datetime64[{unit}]").astype(np.int64)


def deviations(case: dict[str, Any], answers: list[Any]) -> list[Any]:
    """Return the results of later releases, which correct two casts of the recorded one."""
    source, target = parse_atomic(case["from"]), parse_atomic(case["to"])
    if source.root in TIMES and target.root is TypeRoot.TIME:
        return [v % DAY for v in answers]
    if source.root in TIMES and target.root in TIMES:
        digits = target.precision or 0
        return [re.sub(rf"(\.\d{{{digits}}})\d+$", r"\1", v) for v in answers]
    return answers


def told(case: dict[str, Any], value: Any) -> bool:
    """Return whether a column of the new type can hold what Paimon made of a value."""
    target = parse_atomic(case["to"])
    if target.root is TypeRoot.TIME and isinstance(value, int):
        return 0 <= value < DAY or parse_atomic(case["from"]).root in TIMES
    if target.root in TIMES and isinstance(value, str):
        unit = to_arrow_type(target).unit
        year = int(re.match(r"[+-]?\d+", value)[0])
        return unit == "ms" or abs(year - 1970) < (290 if unit == "ns" else 290_000)
    return not isinstance(value, str) or "\ufffd" not in value


def skipped(case: dict[str, Any], value: Any) -> bool:
    """Return whether the recorded text of a timestamp cannot be right: the days since 1970 have more than 32 bits."""
    seconds = case["from"] == "BIGINT"
    if parse_atomic(case["to"]).root not in TIMES or not (seconds or re.fullmatch(r"-?\d{15,}", str(value))):
        return False
    millis = int(value) * 1000 if seconds or case["to"] == "TIMESTAMP(0)" else int(value)
    return abs((millis + 2**63) % 2**64 - 2**63) // DAY >= 2**31


def refused(case: dict[str, Any], value: Any, answer: Any) -> bool:
    """Return whether reading a value fails here: as in Paimon, where the type cannot hold it, or hexadecimal floats."""
    return isinstance(answer, dict) or not told(case, answer) or (value == "0x1p3" and answer == 8.0)


def good(case: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for value, answer in zip(VALUES[case["from"]], case["values"], strict=True):
        if not skipped(case, value) and not refused(case, value, answer):
            yield value, answer


def _big(c: pa.Array) -> bool:
    """Return whether Python has no values as large as those of a column, or rounds them."""
    return pa.types.is_timestamp(c.type) or pa.types.is_date(c.type)


def shown(c: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return the values of a column as texts that distinguish all of them, signs of zeros and nanoseconds as well."""
    return [
        repr(v) for v in (c.cast(pa.int64() if c.type.bit_width == 64 else pa.int32()) if _big(c) else c).to_pylist()
    ]


def nested(values: list[Any], t: DataType) -> pa.Array:
    """Return recorded values of a constructed type as a column."""
    if isinstance(t, AtomicType):
        return column(values, t)
    mask = pa.array(_nulls(values), pa.bool_())
    if isinstance(t, RowType):
        members = [nested([None if v is None else v[i] for v in values], f.type) for i, f in enumerate(t.fields)]
        return pa.StructArray.from_arrays(members, fields=list(to_arrow_type(t)), mask=mask)
    offsets = pa.array(np.cumsum([0, *(len(v or ()) for v in values)]), pa.int32())
    items = [item for v in values for item in v or ()]
    if isinstance(t, MapType):
        keys, texts = nested([k for k, _ in items], t.key), nested([v for _, v in items], t.value)
        return pa.MapArray.from_arrays(offsets, keys, texts, type=to_arrow_type(t), mask=mask)
    assert isinstance(t, ArrayType)
    return pa.ListArray.from_arrays(offsets, nested(items, t.element), type=to_arrow_type(t), mask=mask)

"""Random columns of every type that a table may have, and their values spelled such that equal means the same bits.

Everything is drawn from a `random.Random`, so that a seed repeats it and hypothesis can shrink it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    children,
    not_null,
    parse_atomic,
    reassign_ids,
)

ATOMIC = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(1, 0)",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 18)",
    "DECIMAL(19, 3)",
    "DECIMAL(38, 0)",
    "DECIMAL(38, 38)",
    "CHAR(1)",
    "CHAR(5)",
    "VARCHAR(3)",
    "STRING",
    "BINARY(4)",
    "VARBINARY(4)",
    "BYTES",
    "DATE",
    "TIME(0)",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(0) WITH LOCAL TIME ZONE",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
)
"""Every atomic type but VARIANT and BLOB, with lengths and precisions at which something changes."""

_TEXTS = ("", "a", "é", "𝄞", "\x00", "zz", " x", "e\u0301", "\uffff", "'\"\\", "\n\t")
_INTEGERS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
_FLOATS = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 3.4028234663852886e38, 1.401298464324817e-45, 0.1)
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_YEAR_1, _YEAR_10000 = -62135596800, 253402300800
_SECONDS = (
    *(_YEAR_1, _YEAR_1 + 1, _YEAR_10000 - 1, _YEAR_10000 - 2),
    *(-12219292801, -12219292800, -14000000000),  # around the first day of the Gregorian calendar
    *(-9223372037, -9223372036, -9223372035, 9223372035, 9223372036, 9223372037),  # where nanoseconds end
    *(-2, -1, 0, 1, 1420070399, 1420070400, 1420070401, 2**31 - 1, 2**31, -(2**31) - 1),
)
_FRACTIONS = (0, 1, 10**9 - 1, 5 * 10**8, 10**6, 999_999, 999_000, 1000, 999_000_000, 123_456_789, 10**8)
_NANO_SECONDS = 9223372036


def draw_type(rng: random.Random, *, depth: int = 0, atomic: Sequence[str] = ATOMIC) -> DataType:
    """Return a type; rows have numbered members."""
    found, _ = reassign_ids(_type(rng, depth, atomic), 1)
    return found


def fields_of(types: Sequence[DataType]) -> list[DataField]:
    """Return columns of these types, with the ids that a new table gives."""
    out: list[DataField] = []
    next_id = 0
    for i, t in enumerate(types):
        inner, next_id = reassign_ids(t, next_id)
        out.append(DataField(next_id, f"c{i}", inner))
        next_id += 1
    return out


def draw_array(rng: random.Random, t: DataType, rows: int, *, whole_range: bool = False) -> pa.Array:
    """Return `rows` values of a type, nulls among them where it allows.

    Args:
        rng: the source of chance.
        t: the type.
        rows: how many values.
        whole_range: take times from all that the unit of the type has, not only from the years 1 to 9999.
    """
    valid = [not t.nullable or rng.random() > 0.2 for _ in range(rows)]
    mask = pa.array([not v for v in valid], pa.bool_())
    if isinstance(t, AtomicType):
        return _atomic(rng, t, valid, whole_range=whole_range)
    target = to_arrow_type(t)
    if isinstance(t, RowType):
        parts = [draw_array(rng, f.type, rows, whole_range=whole_range) for f in t.fields]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    sizes = [rng.choice((0, 1, 1, 2, 5)) if v else 0 for v in valid]
    offsets = pa.array(np.cumsum([0, *sizes]), pa.int32())
    if isinstance(t, ArrayType):
        values = draw_array(rng, t.element, sum(sizes), whole_range=whole_range)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    key, value = (t.key, t.value) if isinstance(t, MapType) else (t.element, parse_atomic("INT NOT NULL"))
    pairs = draw_array(rng, not_null(key), sum(sizes), whole_range=whole_range)
    offsets, keep = _distinct(pairs, sizes)
    keys = pairs.take(keep)
    items = draw_array(rng, value, len(keys), whole_range=whole_range)
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


def exact(array: pa.Array, t: DataType) -> list[Any]:
    """Return values as JSON can carry them: whole numbers, texts and lists, of which equal ones have equal bits.

    Floating point numbers are their bits, with one NaN; times are counts of their unit; maps are sorted pairs.
    """
    if isinstance(t, AtomicType):
        return _exact_atoms(array, t)
    if array.offset:
        array = pa.concat_arrays([array.slice(0, 0), array])
    present = array.is_valid().to_pylist()
    if isinstance(t, RowType):
        parts = [exact(array.field(i), f.type) for i, f in enumerate(t.fields)]
        rows = [list(r) for r in zip(*parts, strict=True)]
        return [r if p else None for r, p in zip(rows, present, strict=True)]
    ends = array.offsets.to_pylist()
    if isinstance(t, ArrayType):
        flat = exact(array.values, t.element)
    else:
        key, value = (t.key, t.value) if isinstance(t, MapType) else (t.element, parse_atomic("INT"))
        flat = [list(p) for p in zip(exact(array.keys, key), exact(array.items, value), strict=True)]
    spans = zip(ends[:-1], ends[1:], present, strict=True)
    found = [flat[a:b] if p else None for a, b, p in spans]
    return found if isinstance(t, ArrayType) else [f and sorted(f, key=repr) for f in found]


def _type(rng: random.Random, depth: int, atomic: Sequence[str]) -> DataType:
    kind = rng.choice(("array", "map", "multiset", "row")) if depth else "atomic"
    nullable = rng.random() > 0.1
    if kind == "atomic":
        return replace(parse_atomic(rng.choice(atomic)), nullable=nullable)
    if kind == "array":
        return ArrayType(_type(rng, rng.randrange(depth), atomic), nullable)
    if kind == "row":
        members = [_type(rng, rng.randrange(depth), atomic) for _ in range(rng.randint(1, 3))]
        return RowType(tuple(DataField(i, f"m{i}", m) for i, m in enumerate(members)), nullable)
    key = not_null(_type(rng, 0, atomic))
    if kind == "multiset":
        return MultisetType(key, nullable)
    return MapType(key, _type(rng, rng.randrange(depth), atomic), nullable)


def _distinct(keys: pa.Array, sizes: Sequence[int]) -> tuple[pa.Array, pa.Array]:
    """Return where each map's keys end and which keys stay, such that none comes twice in a map."""
    kept: list[int] = []
    ends = [0]
    at = 0
    for size in sizes:
        seen: set[Any] = set()
        for i in range(at, at + size):
            spelled = repr(keys[i].value if hasattr(keys[i], "value") else keys[i].as_py()).replace("-0.0", "0.0")
            if spelled not in seen:
                seen.add(spelled)
                kept.append(i)
        at += size
        ends.append(len(kept))
    return pa.array(ends, pa.int32()), pa.array(kept, pa.int64())


def _atomic(rng: random.Random, t: AtomicType, valid: Sequence[bool], *, whole_range: bool) -> pa.Array:
    target = to_arrow_type(t)
    same = _value(rng, t, whole_range=whole_range) if rng.random() < 0.2 else None  # a run of one value
    values = [
        (_value(rng, t, whole_range=whole_range) if same is None or rng.random() < 0.1 else same) if v else None
        for v in valid
    ]
    if pa.types.is_timestamp(target):
        return pa.array(values, pa.int64()).cast(target)
    if t.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array(values, pa.int32()).cast(target)
    return pa.array(values, target)


def _value(rng: random.Random, t: AtomicType, *, whole_range: bool) -> Any:
    root = t.root
    if root in _INTEGERS:
        top = 1 << _INTEGERS[root]
        return rng.choice((0, 1, -1, top - 1, -top, rng.randrange(-top, top)))
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _time(rng, t, whole_range=whole_range)
    if root is TypeRoot.BOOLEAN:
        return rng.random() < 0.5
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        more = () if root is TypeRoot.FLOAT else (1.7976931348623157e308, 5e-324)
        found = rng.choice((*_FLOATS, *more, rng.uniform(-1e9, 1e9)))
        return float(np.float32(found)) if root is TypeRoot.FLOAT else found
    if root is TypeRoot.DECIMAL:
        top = 10 ** (t.precision or 0)
        number = rng.choice((0, 1, -1, top - 1, 1 - top, rng.randrange(1 - top, top)))
        return Decimal(f"{number}e-{t.scale or 0}")
    if root is TypeRoot.DATE:
        return rng.choice(
            (0, -1, _YEAR_1 // 86400, _YEAR_10000 // 86400 - 1, -141427, -141428, rng.randrange(-719162, 2932896))
        )
    if root is TypeRoot.TIME:
        return rng.choice((0, 1000, 86_399_000, 1000 * rng.randrange(86_400))) + (
            rng.randrange(1000) if t.precision else 0
        )
    length = min(t.length or 1, 20)
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return rng.randbytes(length if root is TypeRoot.BINARY else rng.randint(0, length))
    text = "".join(rng.choice(_TEXTS) for _ in range(rng.randint(0, 4)))[:length]
    return text.rstrip(" ") if root is TypeRoot.CHAR else text


def _time(rng: random.Random, t: AtomicType, *, whole_range: bool) -> int:
    """Return a count of the unit of a timestamp type, with no more digits than the type has."""
    unit = to_arrow_type(t).unit
    digits = 6 if t.precision is None else t.precision
    per_second = _PER_SECOND[unit]
    if whole_range and rng.random() < 0.2:
        return rng.choice((-(1 << 63), (1 << 63) - 1, rng.randrange(-(1 << 63), 1 << 63)))
    second = rng.choice((*_SECONDS, rng.randrange(_YEAR_1, _YEAR_10000), rng.randrange(0, 2**31)))
    if unit == "ns":
        second = max(-_NANO_SECONDS, min(_NANO_SECONDS - 1, second))
    fraction = rng.choice((*_FRACTIONS, rng.randrange(10**9))) // (10 ** (9 - digits)) * 10 ** (9 - digits)
    return second * per_second + fraction * per_second // 10**9


def _exact_atoms(array: pa.Array, t: AtomicType) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        return [None if v is None else str(v) for v in array.cast(pa.int64()).to_pylist()]
    if t.root in (TypeRoot.DATE, TypeRoot.TIME):
        return list(array.cast(pa.int32()).to_pylist())
    values = array.to_pylist()
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        kinds = (np.float32, np.int32) if t.root is TypeRoot.FLOAT else (np.float64, np.int64)
        return [None if v is None else "NaN" if math.isnan(v) else str(kinds[0](v).view(kinds[1])) for v in values]
    if t.root is TypeRoot.DECIMAL:
        return [None if v is None else format(v, "f") for v in values]
    if t.root is TypeRoot.BIGINT:
        return [None if v is None else str(v) for v in values]
    return [v.hex() if isinstance(v, bytes) else v for v in values]


def has_root(t: DataType, *roots: TypeRoot) -> bool:
    """Return whether a type is one of `roots` or has one inside."""
    if isinstance(t, AtomicType):
        return t.root in roots
    return any(has_root(c, *roots) for c in children(t))

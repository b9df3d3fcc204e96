"""Variants whose members are stored in columns are read as the values that they were."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import struct
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.schema_conform import conform_array
from paimon_spark.spec.types import parse_atomic

RECORDED = Path(__file__).parents[2] / "peers/shredded_variants.json"
MISSING = object()
NAMES = ("a", "b", "ä", "zz", "a long name")
Kind = Any
"""What a value is shredded as: None (whole), an Arrow type, [kind of the elements], or {name: kind}."""


def named(value: Any) -> set[str]:
    """Return the names of all members of a value."""
    if isinstance(value, dict):
        return set(value).union(*(named(v) for v in value.values()))
    return set().union(*(named(v) for v in value)) if isinstance(value, list) else set()


def sums(parts: list[bytes]) -> list[int]:
    return list(accumulate((len(p) for p in parts), initial=0))


def metadata(names: list[str]) -> bytes:
    texts = [n.encode() for n in names]
    ends = sums(texts)
    return bytes([0x41, *struct.pack("<H", len(texts))]) + struct.pack(f"<{len(ends)}H", *ends) + b"".join(texts)


def whole(value: Any, names: list[str]) -> bytes:
    """Return a value as one piece, the values of its members in another order than their names."""
    if value is None or isinstance(value, bool):
        return bytes([(0 if value is None else 1 if value else 2) << 2])
    if isinstance(value, int):
        return bytes([6 << 2]) + struct.pack("<q", value)
    if isinstance(value, str):
        return bytes([16 << 2]) + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, list):
        parts = [whole(v, names) for v in value]
        ends = sums(parts)
        return bytes([0b11111, *struct.pack("<I", len(parts))]) + struct.pack(f"<{len(ends)}I", *ends) + b"".join(parts)
    fields = sorted(value, key=str.encode)
    stored = fields[::-1]
    parts = [whole(value[n], names) for n in stored]
    starts = dict(zip(stored, sums(parts), strict=False))
    ids, offsets = [names.index(n) for n in fields], [*(starts[n] for n in fields), sum(map(len, parts))]
    large = len(fields) > 255
    head = bytes([(0b11111 if large else 0b01111) << 2 | 2]) + len(fields).to_bytes(4 if large else 1, "little")
    return head + struct.pack(f"<{len(ids)}I", *ids) + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(parts)


def parsed(value: bytes, meta: bytes) -> Any:
    """Return the value of a variant."""
    head, basic = value[0] >> 2, value[0] & 3
    if basic == 1:
        return value[1 : 1 + head].decode()
    if basic == 0:
        return simple(head, value[1:])
    width, ids_width, large = (head & 3) + 1, (head >> 2 & 3) + 1, head >> (4 if basic == 2 else 2) & 1
    count = int.from_bytes(value[1 : 5 if large else 2], "little")
    at = 5 if large else 2
    ids = [] if basic == 3 else numbers(value[at:], ids_width, count)
    at += len(ids) * ids_width
    offsets = numbers(value[at:], width, count + 1)
    body = value[at + (count + 1) * width :]
    if basic == 3:
        return [parsed(body[a:b], meta) for a, b in pairwise(offsets)]
    size = meta[0] >> 6
    of = numbers(meta[1 + size + 1 :], size + 1, int.from_bytes(meta[1 : 2 + size], "little") + 1)
    names = meta[2 + size + len(of) * (size + 1) :]
    keys = [names[of[i] : of[i + 1]].decode() for i in ids]
    assert keys == sorted(keys, key=str.encode)
    return {k: parsed(body[o:], meta) for k, o in zip(keys, offsets, strict=False)}


def numbers(data: bytes, width: int, count: int) -> list[int]:
    return [int.from_bytes(data[i * width : (i + 1) * width], "little") for i in range(count)]


def simple(kind: int, body: bytes) -> Any:
    formats = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 11: "<i", 12: "<q", 13: "<q", 14: "<f"}
    if kind in formats:
        return struct.unpack_from(formats[kind], body)[0]
    if kind in (8, 9, 10):
        return decimal.Decimal(int.from_bytes(body[1 : 1 + (4 << (kind - 8))], "little", signed=True)).scaleb(-body[0])
    if kind in (15, 16):
        found = body[4 : 4 + int.from_bytes(body[:4], "little")]
        return found.decode() if kind == 16 else found
    return {0: None, 1: True, 2: False}[kind]


def stored_type(kind: Kind) -> pa.DataType:
    """Return the type of the group that holds a member."""
    parts = [pa.field("value", pa.binary())]
    if isinstance(kind, dict):
        parts.append(pa.field("typed_value", pa.struct([pa.field(n, stored_type(k)) for n, k in kind.items()])))
    elif isinstance(kind, list):
        parts.append(pa.field("typed_value", pa.list_(stored_type(kind[0]))))
    elif kind is not None:
        parts.append(pa.field("typed_value", kind))
    return pa.struct(parts)


def shredded(value: Any, kind: Kind, names: list[str]) -> dict[str, Any]:
    """Return a member as its group holds it."""
    if value is MISSING:
        return {}
    if isinstance(kind, dict) and isinstance(value, dict):
        rest = {n: v for n, v in value.items() if n not in kind}
        typed = {n: shredded(value.get(n, MISSING), k, names) for n, k in kind.items()}
        return {"typed_value": typed} | ({"value": whole(rest, names)} if rest else {})
    if isinstance(kind, list) and isinstance(value, list):
        return {"typed_value": [shredded(v, kind[0], names) for v in value]}
    is_text, is_number = isinstance(value, str), isinstance(value, int) and not isinstance(value, bool)
    if (kind == pa.string() and is_text) or (kind == pa.int64() and is_number):
        return {"typed_value": value}
    return {"value": whole(value, names)}


def column(values: list[Any], kind: Kind) -> pa.Array:
    """Return values as a column of a file; MISSING is a null row."""
    group = pa.struct([pa.field("metadata", pa.binary()), *stored_type(kind)])
    rows = []
    for value in values:
        names = sorted(named(value), reverse=True) if value is not MISSING else []
        rows.append(None if value is MISSING else {"metadata": metadata(names), **shredded(value, kind, names)})
    return pa.array(rows, group)


def read(array: pa.Array) -> list[Any]:
    found = conform_array(array, parse_atomic("VARIANT")).to_pylist()
    return [MISSING if v is None else parsed(v["value"], v["metadata"]) for v in found]


SIMPLE = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-200, 200), st.text(max_size=70)
)
VALUES = st.recursive(
    SIMPLE, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.sampled_from(NAMES), v, max_size=4), max_leaves=12
)
KINDS = st.recursive(
    st.sampled_from([None, pa.int64(), pa.string()]),
    lambda k: st.lists(k, min_size=1, max_size=1) | st.dictionaries(st.sampled_from(NAMES), k, min_size=1, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES | st.just(MISSING), max_size=6), KINDS.filter(lambda k: k is not None), st.integers(0, 2))
def test_members_in_columns_come_back(values: list[Any], kind: Kind, start: int) -> None:
    array = column(values, kind)
    assert read(array.slice(start)) == values[start:]


@pytest.mark.parametrize("items", [0, 1, 255, 256, 70_000])
def test_long_lists_and_objects(items: int) -> None:
    values = [list(range(items)), {f"n{i:06}": i for i in range(min(items, 300))}]
    assert read(column(values, [pa.int64()])) == values
    assert read(column(values, {"n000002": pa.int64(), "other": None})) == values


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        (pa.int8(), [-128, 127, None], [-128, 127, None]),
        (pa.int32(), [-(1 << 31), 40_000, -129], [-(1 << 31), 40_000, -129]),
        (pa.bool_(), [True, None, False], [True, None, False]),
        (pa.float32(), [0.5, None], [0.5, None]),
        (pa.float64(), [0.1, -0.0], [0.1, -0.0]),
        (pa.binary(), [b"", b"\x00\xff" * 40, None], [b"", b"\x00\xff" * 40, None]),
        (pa.date32(), [datetime.date(1969, 12, 31), None], [-1, None]),
        (pa.timestamp("us", "UTC"), [-1, 10**15], [-1, 10**15]),
        (pa.timestamp("us"), [-1, None], [-1, None]),
        (pa.decimal128(9, 2), [decimal.Decimal("-1.25"), None], [decimal.Decimal("-1.25"), None]),
        (pa.decimal128(38, 3), [decimal.Decimal(10**30), decimal.Decimal("0.001")], [10**30, decimal.Decimal("0.001")]),
        (pa.decimal128(18, 0), [decimal.Decimal(-(10**17))], [-(10**17)]),
    ],
    ids=str,
)
def test_simple_types(kind: pa.DataType, values: list[Any], found: list[Any]) -> None:
    rows = [{"metadata": b"\x01\x00\x00", "value": b"\x00" if v is None else None, "typed_value": v} for v in values]
    group = pa.struct([pa.field("metadata", pa.binary()), *stored_type(kind)])
    assert read(pa.array(rows, group)) == found


def test_columns_of_other_types_are_refused() -> None:
    group = pa.struct([pa.field("metadata", pa.binary()), *stored_type(pa.time64("us"))])
    with pytest.raises(UnsupportedError, match="of the type time64"):
        read(pa.array([{"metadata": b"\x01\x00\x00", "typed_value": 1}], group))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"metadata": metadata([]), "typed_value": {"a": {"typed_value": 1}}}, "lacks the name of its member 'a'"),
        ({"metadata": metadata(["a"]), "value": b"\x00", "typed_value": {"a": {}}}, "is no object"),
        ({"metadata": metadata(["a"]), "value": b"\x02\x05", "typed_value": {"a": {}}}, "ends too early"),
        ({"metadata": b"\x01\x05", "typed_value": {"a": {}}}, "ends too early"),
        (
            {"metadata": metadata(["a"]), "value": whole({"a": 1}, ["a"]), "typed_value": {"a": {"typed_value": 1}}},
            "stored twice",
        ),
    ],
)
def test_parts_that_do_not_fit_are_told(row: dict[str, Any], message: str) -> None:
    group = pa.struct([pa.field("metadata", pa.binary()), *stored_type({"a": pa.int64()})])
    with pytest.raises(CorruptTableError, match=message):
        read(pa.array([row], group))


@pytest.mark.parametrize("case", json.loads(RECORDED.read_text()), ids=lambda c: c["name"])
def test_files_of_paimon(case: dict[str, Any]) -> None:
    stored = pq.read_table(io.BytesIO(base64.b64decode(case["file"]))).column("v").combine_chunks()
    assert ("typed_value" in {f.name for f in stored.type}) == case["in_columns"]
    texts = [None if v is MISSING else json.dumps(v, default=float) for v in read(stored)]
    assert [t and json.loads(t) for t in texts] == case["values"]

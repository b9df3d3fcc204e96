"""Row bytes: own vectors, the project's shared vectors where present, and round trips."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.rows import (
    Timestamp,
    bucket_of,
    decode_field,
    decode_row,
    encode_row,
    murmur,
    row_arity,
    row_body,
)
from paimon_spark.spec.types import (
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic,
    parse_atomic,
)
from tests.reference_data import BUCKET_VECTORS

_INT = atomic(TypeRoot.INT)

OWN = [
    (["INT", "STRING"], [None, "x"], "00000002000100000000000000000000000000007800000000000081"),
    (["STRING"], ["abcdefgh"], "00000001000000000000000008000000100000006162636465666768"),
    (["TINYINT", "BOOLEAN"], [-128, True], "00000002000000000000000080000000000000000100000000000000"),
    (["DECIMAL(9, 2)"], [Decimal("-0.01")], "000000010000000000000000ffffffffffffffff"),
    (["DECIMAL(20, 2)"], [None], "0000000100010000000000000000000010000000" + "00" * 16),
    (["TIMESTAMP(6)"], [Timestamp(-1, 999000)], "000000010000000000000000583e0f0010000000" + "ff" * 8),
    ([], [], "00" * 12),
]


@pytest.mark.parametrize(("types", "values", "expected"), OWN)
def test_own_vectors(types: list[str], values: list[Any], expected: str) -> None:
    parsed = [parse_atomic(t) for t in types]
    data = encode_row(values, parsed)
    assert data.hex() == expected
    assert list(decode_row(data, parsed)) == values
    assert [decode_field(data, i, t) for i, t in enumerate(parsed)] == values


def test_hash_of_known_rows() -> None:
    body = row_body(encode_row([1], [_INT]))
    assert murmur(body) == 1465514398
    assert bucket_of(murmur(body), 8) == 6
    assert bucket_of(-300363099, 8) == 3


def _value(raw: Any, t: DataType) -> Any:
    assert isinstance(t, AtomicType)
    if raw is None:
        return None
    if t.root is TypeRoot.BIGINT:
        return int(raw)
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return float(raw)
    if t.root is TypeRoot.DECIMAL:
        return Decimal(raw)
    if t.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return bytes.fromhex(raw[2:])
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        text, _, fraction = raw.partition(".")
        span = datetime.fromisoformat(text) - datetime(1970, 1, 1)
        nanos = int(fraction.ljust(9, "0"))
        return Timestamp((span.days * 86400 + span.seconds) * 1000 + nanos // 10**6, nanos % 10**6)
    return raw


@pytest.mark.skipif(not BUCKET_VECTORS.exists(), reason="the shared vectors are not here")
def test_shared_vectors() -> None:
    for vector in json.loads(BUCKET_VECTORS.read_text())["vectors"]:
        if any("<" in t for t in vector["types"]):
            types, values = _nested()
        else:
            types = [parse_atomic(t) for t in vector["types"]]
            values = [_value(v, t) for v, t in zip(vector["values"], types, strict=True)]
        data = encode_row(values, types)
        assert data.hex() == vector["serialized_hex"], vector["name"]
        assert repr(list(decode_row(data, types))) == repr(values), vector["name"]
        assert murmur(row_body(data)) == vector["hash"], vector["name"]
        assert bucket_of(vector["hash"], 8) == vector["bucket_of_8"], vector["name"]


def _nested() -> tuple[list[DataType], list[Any]]:
    row = RowType((DataField(0, "a", _INT), DataField(1, "b", STRING)))
    types: list[DataType] = [
        ArrayType(_INT),
        ArrayType(STRING),
        MapType(STRING, _INT),
        row,
        ArrayType(atomic(TypeRoot.BOOLEAN)),
    ]
    values = [[1, None, 3], ["x", "long string here"], [("k", 5)], (9, "nested-string"), [True, False, None]]
    return types, values


def test_rows_of_other_schemas() -> None:
    old = encode_row([7], [_INT])
    assert decode_row(old, [_INT, STRING]) == (7, None)
    assert decode_field(old, 1, STRING) is None
    wide = encode_row(list(range(60)), [_INT] * 60)
    assert decode_row(wide, [_INT, _INT]) == (0, 1)
    assert row_arity(wide) == 60


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", bytes.fromhex("00000001" + "00" * 8 + "0800000010000000")])
def test_malformed_rows(data: bytes) -> None:
    with pytest.raises(CorruptTableError):
        decode_row(data, [STRING])


_MILLIS = st.integers(-(10**13), 10**13)
_SIMPLE: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("BOOLEAN", st.booleans()),
    ("TINYINT", st.integers(-128, 127)),
    ("SMALLINT", st.integers(-(2**15), 2**15 - 1)),
    ("INT", st.integers(-(2**31), 2**31 - 1)),
    ("BIGINT", st.integers(-(2**63), 2**63 - 1)),
    ("FLOAT", st.floats(width=32, allow_nan=False)),
    ("DOUBLE", st.floats(allow_nan=False)),
    ("DATE", st.integers(-(10**6), 10**6)),
    ("STRING", st.text(max_size=12)),
    ("BYTES", st.binary(max_size=12)),
    ("DECIMAL(18, 3)", st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3))),
    ("DECIMAL(28, 3)", st.integers(-(10**28) + 1, 10**28 - 1).map(lambda n: Decimal(n).scaleb(-3))),
    ("TIMESTAMP(3)", _MILLIS.map(Timestamp)),
    ("TIMESTAMP(9)", st.builds(Timestamp, _MILLIS, st.integers(0, 999_999))),
]


@st.composite
def _typed(draw: st.DrawFn, depth: int = 2) -> tuple[DataType, Any]:
    kind = draw(st.sampled_from(["simple", "array", "map", "row", "multiset"] if depth else ["simple"]))
    if kind == "row":
        parts = draw(st.lists(_typed(depth - 1), min_size=1, max_size=3))
        return RowType(tuple(DataField(i, f"f{i}", t) for i, (t, _) in enumerate(parts))), tuple(v for _, v in parts)
    if kind == "simple":
        text, values = draw(st.sampled_from(_SIMPLE))
        return parse_atomic(text), draw(st.none() | values)
    t, value = draw(_typed(depth - 1))
    if kind == "array":
        return ArrayType(t), [value] * draw(st.integers(0, 40))
    if kind == "multiset":
        return MultisetType(t), [(value, 3)]
    return MapType(STRING, t), [("k", value)]


@settings(max_examples=150, deadline=None)
@given(st.lists(_typed(), max_size=6))
def test_round_trip(columns: list[tuple[DataType, Any]]) -> None:
    types, values = [t for t, _ in columns], [v for _, v in columns]
    assert list(decode_row(encode_row(values, types), types)) == values

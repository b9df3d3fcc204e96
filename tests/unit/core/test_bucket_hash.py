"""Bucket hashes against the vectors that real Paimon releases produced."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.write.bucket_hash import bucket_numbers, hash_rows
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, parse_atomic
from tests.shared import BUCKET_VECTORS

ARROW: dict[TypeRoot, pa.DataType] = {
    TypeRoot.CHAR: pa.string(), TypeRoot.VARCHAR: pa.string(), TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(), TypeRoot.VARBINARY: pa.binary(), TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(), TypeRoot.INT: pa.int32(), TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(), TypeRoot.DOUBLE: pa.float64(), TypeRoot.DATE: pa.date32(), TypeRoot.TIME: pa.time32("ms"),
}  # fmt: skip


def arrow_type(t: AtomicType) -> pa.DataType:
    if t.root is TypeRoot.DECIMAL:
        return pa.decimal128(t.precision, t.scale)
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        p = t.precision or 0
        return pa.timestamp("ms" if p <= 3 else "us" if p <= 6 else "ns")
    return ARROW[t.root]


def arrow_array(value: Any, t: AtomicType) -> pa.Array:
    target = arrow_type(t)
    if value is None:
        return pa.array([None], target)
    if t.root in (TypeRoot.BIGINT,):
        return pa.array([int(value)], target)
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return pa.array(np.array([float(value)], dtype=target.to_pandas_dtype()))
    if t.root is TypeRoot.DECIMAL:
        return pa.array([Decimal(value)], target)
    if t.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return pa.array([bytes.fromhex(value[2:])], target)
    if t.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array([int(value)], pa.int32()).cast(target)
    if pa.types.is_timestamp(target):
        whole, _, fraction = value.partition(".")
        seconds = int((datetime.fromisoformat(whole) - datetime(1970, 1, 1)).total_seconds())
        nanos = seconds * 10**9 + int((fraction + "000000000")[:9])
        per = {"ms": 10**6, "us": 10**3, "ns": 1}[target.unit]
        return pa.array([nanos // per], pa.int64()).cast(target)
    return pa.array([value], target)


def flat_vectors() -> list[Any]:
    if not BUCKET_VECTORS.exists():
        return []
    out = []
    for v in json.loads(BUCKET_VECTORS.read_text("utf-8"))["vectors"]:
        try:
            types = [parse_atomic(t) for t in v["types"]]
        except Exception:  # noqa: BLE001 - nested types are no bucket keys
            continue
        out.append(pytest.param(v, types, id=v["name"]))
    return out


@pytest.mark.skipif(not BUCKET_VECTORS.exists(), reason="the shared vectors are not here")
@pytest.mark.parametrize(("vector", "types"), flat_vectors())
def test_vector(vector: dict[str, Any], types: list[AtomicType]) -> None:
    fields = [DataField(i, f"f{i}", t) for i, t in enumerate(types)]
    arrays = [arrow_array(v, t) for v, t in zip(vector["values"], types, strict=True)]
    batch = pa.record_batch(arrays, names=[f.name for f in fields])
    hashes = hash_rows(batch, fields)
    assert hashes.tolist() == [vector["hash"]]
    assert bucket_numbers(hashes, 8).tolist() == [vector["bucket_of_8"]]


def test_hash_does_not_depend_on_neighbours_or_slices() -> None:
    texts = ["", "a", "1234567", "12345678", "123456789", "x" * 200, None, "é" * 9, "0" * 16] * 4000
    wide = [None if i % 7 == 0 else Decimal(i * i - 500) * Decimal(10) ** (i % 19) for i in range(len(texts))]
    fields = [DataField(0, "s", parse_atomic("STRING")), DataField(1, "d", parse_atomic("DECIMAL(38,0)"))]
    batch = pa.record_batch([pa.array(texts), pa.array(wide, pa.decimal128(38, 0))], names=["s", "d"])
    whole = hash_rows(batch, fields)
    for i in (0, 5, 6, 7, 8, 35000):
        assert hash_rows(batch.slice(i, 1), fields)[0] == whole[i]
    assert (hash_rows(pa.Table.from_batches([batch.slice(0, 7), batch.slice(7)]), fields) == whole).all()

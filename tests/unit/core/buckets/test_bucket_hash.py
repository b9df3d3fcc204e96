"""Bucket hashes against the vectors that real Paimon releases produced."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.arrow import value_at
from paimon_spark.core.buckets.bucket_hash import bucket_numbers, hash_rows, key_buckets
from paimon_spark.core.buckets.hive_hash import hive_hashes
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.bucket_functions import BucketFunction, bucket_for, hashes_with_hive, key_hash
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, parse_atomic
from tests.reference_data import BUCKET_VECTORS

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
    values = [value_at(c, 0, t) for c, t in zip(batch.columns, types, strict=True)]
    for function, expected in (("mod", "mod_bucket_of_8"), ("hive", "hive_bucket_of_8"), ("default", "bucket_of_8")):
        if expected in vector and (function != "hive" or all(map(hashes_with_hive, types))):
            wanted = BucketFunction(function)
            assert key_buckets(wanted, batch, fields, 8).tolist() == [vector[expected]], function
            assert bucket_for(wanted, key_hash(wanted, values, types), 8) == vector[expected], function


def test_hash_does_not_depend_on_neighbours_or_slices() -> None:
    texts = ["", "a", "1234567", "12345678", "123456789", "x" * 200, None, "é" * 9, "0" * 16] * 4000
    wide = [None if i % 7 == 0 else Decimal(i * i - 500) * Decimal(10) ** (i % 19) for i in range(len(texts))]
    fields = [DataField(0, "s", parse_atomic("STRING")), DataField(1, "d", parse_atomic("DECIMAL(38,0)"))]
    batch = pa.record_batch([pa.array(texts), pa.array(wide, pa.decimal128(38, 0))], names=["s", "d"])
    whole = hash_rows(batch, fields)
    for i in (0, 5, 6, 7, 8, 35000):
        assert hash_rows(batch.slice(i, 1), fields)[0] == whole[i]
    assert (hash_rows(pa.Table.from_batches([batch.slice(0, 7), batch.slice(7)]), fields) == whole).all()


def random_columns(n: int) -> tuple[pa.RecordBatch, list[DataField]]:
    """Return columns of every type that the function hive accepts, with nulls."""
    draw = np.random.default_rng(7)
    nulls = draw.random(n) < 0.2
    texts = ["".join(map(chr, draw.integers(32, 900, size=k))) for k in draw.integers(0, 40, size=n)]
    digits = [Decimal(int(draw.integers(-(10**17), 10**17))) for _ in range(n)]
    columns = {
        "INT": pa.array(draw.integers(-(2**31), 2**31, n), pa.int32(), mask=nulls),
        "SMALLINT": pa.array(draw.integers(-(2**15), 2**15, n), pa.int16(), mask=nulls),
        "BIGINT": pa.array(draw.integers(-(2**63), 2**63 - 1, n), pa.int64(), mask=nulls),
        "FLOAT": pa.array(draw.normal(size=n).astype(np.float32), mask=nulls),
        "DOUBLE": pa.array(draw.normal(size=n), mask=nulls),
        "STRING": pa.array(texts, pa.string(), mask=nulls),
        "BYTES": pa.array([t.encode() for t in texts], pa.binary(), mask=nulls),
        "DECIMAL(18, 5)": pa.array([(d / 100000).normalize() if i % 3 else Decimal(i) for i, d in enumerate(digits)],
                                   pa.decimal128(18, 5), mask=nulls),
        "DECIMAL(38, 12)": pa.array([d * 10**9 + i % 7 for i, d in enumerate(digits)], pa.decimal128(38, 12), mask=nulls),
        "BOOLEAN": pa.array(draw.random(n) < 0.5, mask=nulls),
    }  # fmt: skip
    fields = [DataField(i, f"f{i}", parse_atomic(t)) for i, t in enumerate(columns)]
    return pa.record_batch(list(columns.values()), names=[f.name for f in fields]), fields


def test_hive_hashes_of_columns_are_those_of_single_values() -> None:
    batch, fields = random_columns(500)
    types = [f.type for f in fields]
    for chosen in ([f] for f in fields):
        kinds = [f.type for f in chosen]
        expected = [
            key_hash(BucketFunction.HIVE, [value_at(batch.column(f.name), i, f.type) for f in chosen], kinds)
            for i in range(batch.num_rows)
        ]
        assert hive_hashes(batch, chosen).tolist() == expected, kinds
    row = [value_at(batch.column(f.name), 3, f.type) for f in fields]
    assert hive_hashes(batch.slice(3, 1), fields).tolist() == [key_hash(BucketFunction.HIVE, row, types)]


def test_a_number_of_buckets_for_each_row() -> None:
    batch, fields = random_columns(200)
    counts = np.arange(200, dtype=np.int32) % 5 + 1
    for function, columns in (("default", fields), ("hive", fields), ("mod", fields[:1])):
        wanted = BucketFunction(function)
        found = key_buckets(wanted, batch, columns, counts)
        for n in range(1, 6):
            assert (found[counts == n] == key_buckets(wanted, batch, columns, n)[counts == n]).all()


def test_hive_refuses_timestamps_and_mod_texts() -> None:
    stamp = DataField(0, "t", parse_atomic("TIMESTAMP(3)"))
    text = DataField(1, "s", parse_atomic("STRING"))
    batch = pa.record_batch([pa.array([0], pa.timestamp("ms")), pa.array(["a"])], names=["t", "s"])
    with pytest.raises(UnsupportedError, match="'hive' does not accept the column 't'"):
        key_buckets(BucketFunction.HIVE, batch, [stamp], 4)
    with pytest.raises(UnsupportedError, match="'mod' does not accept the column 's'"):
        key_buckets(BucketFunction.MOD, batch, [text], 4)

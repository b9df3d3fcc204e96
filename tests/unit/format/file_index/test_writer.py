"""What writers of indexes leave out, keys of maps, and hashes of strings of all lengths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.format.file_index.bitmap import BitmapWriter
from paimon_spark.format.file_index.container import read_places
from paimon_spark.format.file_index.reader import FileIndexReader
from paimon_spark.format.file_index.values import Domain, texts
from paimon_spark.format.file_index.writer import FileIndexWriter
from paimon_spark.format.file_index.xxhash64 import hash_bytes
from paimon_spark.spec.file_indexes import IndexKind, IndexSpec
from paimon_spark.spec.predicate import Comparison, IsNull
from paimon_spark.spec.types import STRING, DataField, DataType, MapType, parse_atomic

INT, BIGINT = parse_atomic("INT"), parse_atomic("BIGINT")


def written(spec: IndexSpec, t: DataType, column: pa.Array) -> bytes:
    writer = FileIndexWriter([spec], [DataField(0, spec.column, t)])
    writer.add(pa.table({spec.column: column}))
    return writer.finish()


def test_keys_of_maps() -> None:
    column = pa.array([{"a": 1, "b": 2}, {"b": 3}, None, {"a": None}, {"a": 7}], pa.map_(pa.string(), pa.int32()))
    container = written(IndexSpec(IndexKind.BITMAP, "m", "a"), MapType(STRING, INT), column)
    assert list(read_places(lambda at, n: container[at : at + n])) == ["m[a]"]
    reader = FileIndexReader(lambda at, n: container[at : at + n], {"v": ("m[a]", INT)}, 5)
    assert set(reader.matching_rows(Comparison("=", "v", 7)) or ()) == {4}
    assert set(reader.matching_rows(IsNull("v")) or ()) == {1, 2, 3}


@pytest.mark.parametrize(
    ("kind", "t", "values", "settings"),
    [
        (IndexKind.BSI, BIGINT, pa.array([-(1 << 63), 1]), {}),
        (IndexKind.RANGE_BITMAP, INT, pa.array([None, None], pa.int32()), {}),
        (IndexKind.BITMAP, STRING, pa.array(["x" * 100, "y"]), {"index-block-size": "64b"}),
        (IndexKind.BITMAP, parse_atomic("BYTES"), pa.array([b"x"]), {}),
    ],
)
def test_values_that_a_kind_cannot_represent(
    kind: IndexKind, t: DataType, values: pa.Array, settings: dict[str, str]
) -> None:
    assert written(IndexSpec(kind, "v", None, settings), t, values) == b""


def test_many_rows_of_many_values() -> None:
    rng = np.random.default_rng(7)
    numbers = np.concatenate([rng.integers(0, 3, 70_000), rng.integers(0, 60_000, 130_000), np.full(5000, 9)])
    column = pa.array(numbers, pa.int32(), mask=rng.random(len(numbers)) < 0.01)
    for kind in (IndexKind.BITMAP, IndexKind.RANGE_BITMAP, IndexKind.BSI):
        container = written(IndexSpec(kind, "v", None, {}), INT, column)
        reader = FileIndexReader(lambda at, n, data=container: data[at : at + n], {"v": ("v", INT)}, len(column))
        for value in (0, 9, 41, 59_999, 60_001):
            found = reader.matching_rows(Comparison("=", "v", value))
            assert found is not None
            equal = np.asarray(column.fill_null(-1)) == value
            assert np.array_equal(np.array(found.to_array()), np.flatnonzero(equal))


def test_hashes_of_strings_of_all_lengths() -> None:
    strings = [bytes((i * 7 + k) % 251 for k in range(i)) for i in range(70)]
    together = hash_bytes(*texts(pa.array(strings, pa.binary())))
    alone = [hash_bytes(*texts(pa.array([s], pa.binary())))[0] for s in strings]
    assert together.tolist() == [int(h) for h in alone]
    assert len(set(together.tolist())) == len(strings)
    known = {b"": 0xEF46DB3751D8E999, b"abc": 0x44BC2CF5AD770999}
    known[b"Nobody inspects the spammish repetition"] = 0xFBCEA83C8A378BF1
    assert hash_bytes(*texts(pa.array(list(known), pa.binary()))).tolist() == list(known.values())


@pytest.mark.parametrize(("kind", "width"), [("INT", 4), ("STRING", 4 + 6)])
@pytest.mark.parametrize("batch", [7, 40, 10_000])
def test_a_bitmap_of_too_many_distinct_values_is_left_out(kind: str, width: int, batch: int) -> None:
    domain = Domain(parse_atomic(kind))
    for distinct in (100, 101):
        numbers = np.random.default_rng(distinct).permutation(np.tile(np.arange(distinct), 50))
        values = pa.array(numbers, pa.int32()) if kind == "INT" else pa.array([f"{n:06}" for n in numbers])
        bounded, free = BitmapWriter(domain, {}, 100 * width), BitmapWriter(domain, {})
        for start in range(0, len(values), batch):
            bounded.add(values.slice(start, batch))
            free.add(values.slice(start, batch))
        assert bounded.finish() == (free.finish() if distinct == 100 else None)

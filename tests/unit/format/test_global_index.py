"""Files of global indexes: what is written is found again, by every comparison, for every type of key."""

from __future__ import annotations

import tracemalloc
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader
from paimon_spark.format.global_index.bitmap import BitmapReader, bitmap_file
from paimon_spark.format.global_index.blocks import COMPRESSIONS
from paimon_spark.format.global_index.btree import BTreeReader, btree_file
from paimon_spark.format.global_index.keys import KeyDomain
from paimon_spark.format.global_index.meta import FileKeys
from paimon_spark.format.global_index.sorted_rows import FileSettings, SortedRows
from paimon_spark.format.varints import all_varints, varints
from paimon_spark.spec.types import AtomicType, TypeRoot

KINDS = {"btree": (btree_file, BTreeReader), "bitmap": (bitmap_file, BitmapReader)}
TYPES: dict[str, tuple[AtomicType, pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (AtomicType(TypeRoot.BOOLEAN), pa.bool_(), st.booleans()),
    "tiny": (AtomicType(TypeRoot.TINYINT), pa.int8(), st.integers(-128, 127)),
    "small": (AtomicType(TypeRoot.SMALLINT), pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (AtomicType(TypeRoot.INT), pa.int32(), st.integers(-3, 300)),
    "long": (AtomicType(TypeRoot.BIGINT), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (AtomicType(TypeRoot.VARCHAR, length=9), pa.string(), st.text(max_size=5)),
    "date": (AtomicType(TypeRoot.DATE), pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "float": (AtomicType(TypeRoot.FLOAT), pa.float32(), st.floats(width=32)),
    "double": (AtomicType(TypeRoot.DOUBLE), pa.float64(), st.floats()),
    "decimal": (
        AtomicType(TypeRoot.DECIMAL, precision=9, scale=2),
        pa.decimal128(9, 2),
        st.decimals(-1000, 1000, places=2),
    ),
    "wide": (
        AtomicType(TypeRoot.DECIMAL, precision=30, scale=1),
        pa.decimal128(30, 1),
        st.integers(-(10**28), 10**28).map(Decimal) | st.decimals(-200, 200, places=1),
    ),
    "millis": (
        AtomicType(TypeRoot.TIMESTAMP, precision=3),
        pa.timestamp("ms"),
        st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
        ),
    ),
    "micros": (
        AtomicType(TypeRoot.TIMESTAMP, precision=6),
        pa.timestamp("us"),
        st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)),
    ),
    "nanos": (AtomicType(TypeRoot.TIMESTAMP, precision=9), pa.timestamp("ns"), st.integers(-(10**16), 10**16)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_are_found(name: str, kind: str, data: st.DataObject) -> None:
    t, arrow, values = TYPES[name]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=60)), arrow)
    domain, (write, reader_of) = KeyDomain(t), KINDS[kind]
    rows = SortedRows.of(column, domain)
    size, compression = data.draw(st.sampled_from([1, 40, 200, 65536])), data.draw(st.sampled_from(COMPRESSIONS))
    written = FileSettings(block_size=size, compression=compression)
    body = write(rows, written)
    reader = reader_of(lambda at, n: body[at : at + n], len(body), domain, len(column))
    codes = _codes(domain, column)
    assert reader.nulls() == _rows(codes, lambda c: c is None)
    for code in [c for c in codes if c is not None][:8]:
        _check(reader, codes, code)
    some = [c for c in codes if c is not None][:3]
    assert reader.among(some) == _rows(codes, lambda c: c in some)
    keys = FileKeys.parse(rows.file_keys.packed())
    known = [c for c in codes if c is not None]
    assert keys == rows.file_keys
    assert keys.has_nulls == (len(known) < len(codes))
    if known:
        assert (domain.code(keys.first or b""), domain.code(keys.last or b"")) == (min(known), max(known))


def _check(reader: IndexReader, codes: list[Any], code: Any) -> None:
    assert reader.among([code]) == _rows(codes, lambda c: c == code)
    assert reader.at_least(code) == _rows(codes, lambda c: c is not None and c >= code)
    assert reader.at_least(code, strictly=True) == _rows(codes, lambda c: c is not None and c > code)
    assert reader.at_most(code) == _rows(codes, lambda c: c is not None and c <= code)
    assert reader.at_most(code, strictly=True) == _rows(codes, lambda c: c is not None and c < code)


def _codes(domain: KeyDomain, column: pa.Array) -> list[Any]:
    """Return the code of each value by the reading side alone: from its key."""
    out: list[Any] = []
    for value in column:
        if not value.is_valid:
            out.append(None)
            continue
        single, _ = domain.sorted(
            pa.array([value.as_py()] if column.type != pa.timestamp("ns") else [value.value], column.type)
        )
        body, _ = domain.serialize(single)
        out.append(domain.code(body.tobytes()))
    return out


def _rows(codes: list[Any], holds: Any) -> BitMap:
    return BitMap(i for i, c in enumerate(codes) if holds(c))


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**62)))
def test_numbers_of_variable_length(values: list[int]) -> None:
    data, _ = varints(np.array(values, np.int64))
    assert all_varints(data).tolist() == values


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_writing_many_values(kind: str) -> None:
    values = np.random.default_rng(1).permutation(1 << 19)
    column, domain, (write, reader_of) = pa.array(values), KeyDomain(AtomicType(TypeRoot.BIGINT)), KINDS[kind]
    tracemalloc.start()
    try:
        body = write(SortedRows.of(column, domain), FileSettings(block_size=16 << 10))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * column.nbytes
    reader = reader_of(lambda at, n: body[at : at + n], len(body), domain, len(column))
    for row in (0, 1000, len(column) - 1):
        assert reader.among([int(values[row])]) == BitMap([row])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixed", [False, True], ids=["written here", "written by Paimon for Spark"])
@pytest.mark.parametrize("block_size", [1, 40, 65536])
def test_both_zeros_are_one_value(kind: str, mixed: bool, block_size: int) -> None:
    domain, (write, reader_of) = KeyDomain(AtomicType(TypeRoot.DOUBLE)), KINDS[kind]
    values = [-5.0, 0.0, -0.0, 0.0, -0.0, 7.0]
    rows = SortedRows.of(pa.array(values), domain)
    if mixed:  # in the order of Spark, each entry with one row
        keys = np.array(values).view(np.uint8)
        rows = SortedRows(np.arange(6), np.arange(6), keys, np.full(6, 8), BitMap(), 6)
    body = write(rows, FileSettings(block_size=block_size))
    reader = reader_of(lambda at, n: body[at : at + n], len(body), domain, 6)
    for zero in (0.0, -0.0):
        literal = domain.literal(zero)
        assert literal is not None
        assert reader.among(literal.codes) == BitMap([1, 2, 3, 4])
        assert reader.at_least(literal.low) == BitMap([1, 2, 3, 4, 5])
        assert reader.at_least(literal.high, strictly=True) == BitMap([5])
        assert reader.at_most(literal.high) == BitMap([0, 1, 2, 3, 4])
        assert reader.at_most(literal.low, strictly=True) == BitMap([0])

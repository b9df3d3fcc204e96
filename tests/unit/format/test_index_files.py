"""Hash index files and deletion vectors."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from pyroaring import BitMap

from paimon_spark.errors import CorruptTableError
from paimon_spark.format import deletion_vectors as dv
from paimon_spark.format import hash_index
from paimon_spark.spec.manifest import DeletionRange

FORM_32 = bytes.fromhex("01 00000018 5e43f2d0 3a300000 01000000 0000 0100 10000000 0200 dc05 be52db62")
FORM_64 = bytes.fromhex(
    "01 00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0200 dc05 0c4b1518"
)


def read_vector(data: bytes, found: DeletionRange, where: str = "an index file") -> BitMap:
    return dv.vector_in(dv.stored_vector(data, found, where), found, where)


def test_hashes_are_big_endian() -> None:
    hashes = np.array([1, -2, 2**31 - 1], np.int32)
    data = hash_index.encode(hashes)
    assert data.hex() == "00000001fffffffe7fffffff"
    assert hash_index.decode(data).tolist() == hashes.tolist()
    assert hash_index.decode(b"").tolist() == []
    with pytest.raises(CorruptTableError, match="index-9"):
        hash_index.decode(data[:-1], "index-9")


def test_both_forms_are_read() -> None:
    small = read_vector(FORM_32, DeletionRange("data-1", 1, 24, 2))
    large = read_vector(FORM_64, DeletionRange("data-1", 1, 44))
    assert list(small) == list(large) == [2, 1500]
    assert dv.positions(small, 0, 2000).tolist() == [2, 1500]
    assert dv.positions(small, 3, 1501).tolist() == [1500]
    assert dv.positions(small, 3, 1500).tolist() == []
    assert dv.positions(BitMap([2**32 - 1]), 2**32 - 2, 2**32 + 5).tolist() == [2**32 - 1]


def test_written_files_are_those_of_java() -> None:
    narrow, wide = _file({"data-1": BitMap([2, 1500])}), _file({"data-1": BitMap([2, 1500])}, wide=True)
    assert (narrow.data, narrow.ranges) == (FORM_32, (DeletionRange("data-1", 1, 24, 2),))
    assert (wide.data, wide.ranges) == (FORM_64, (DeletionRange("data-1", 1, 44, 2),))


@pytest.mark.parametrize("wide", [False, True])
def test_what_is_written_is_read(wide: bool) -> None:
    vectors = {"a": BitMap(range(1000)), "b": BitMap(), "c": BitMap([2**31])}
    file = _file(vectors, wide=wide)
    assert {r.data_file: read_vector(file.data, r) for r in file.ranges} == vectors
    assert file.size == len(file.data)


def test_a_vector_moves_to_another_file_as_it_is() -> None:
    old = _file({"a": BitMap([1]), "b": BitMap([7, 9])})
    second = old.ranges[1]
    new = dv.VectorFile(wide=True)
    new.add("c", BitMap([3]))
    new.add_stored(second, dv.stored_vector(old.data, second))
    _, moved = new.ranges
    assert (moved.data_file, moved.cardinality) == ("b", 2)
    assert read_vector(new.data, moved) == BitMap([7, 9])
    first, stored = (dv.stored_vector(old.data, r) for r in (old.ranges[0], second))
    assert dv.fingerprint(dv.stored_vector(new.data, moved)) == dv.fingerprint(stored) != 0
    assert dv.fingerprint(stored) != dv.fingerprint(first)


def _file(vectors: dict[str, BitMap], *, wide: bool = False) -> dv.VectorFile:
    file = dv.VectorFile(wide=wide)
    for name, vector in vectors.items():
        file.add(name, vector)
    return file


@pytest.mark.parametrize("change", [0, 4, 8, 20, 30, 32])
def test_damage_is_named(change: int) -> None:
    bad = bytearray(FORM_32)
    bad[change] ^= 255
    found = DeletionRange("data-1", 1 if change else 5, 24)
    with pytest.raises(CorruptTableError, match=r"index-3 .* 'data-1'"):
        read_vector(bytes(bad), found, "index-3")
    with pytest.raises(CorruptTableError):
        read_vector(FORM_32[:20], DeletionRange("data-1", 1, 24))


def _vector(body: bytes) -> tuple[bytes, DeletionRange]:
    data = b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return data, DeletionRange("data-1", 1, len(body))


def test_a_vector_of_all_rows_costs_only_the_rows_read() -> None:
    everything = BitMap()
    everything.add_range(0, 2**32)
    file = _file({"data-1": everything})
    data, (found,) = file.data, file.ranges
    assert len(data) < 2_000_000
    tracemalloc.start()
    vector = read_vector(data, found)
    assert dv.positions(vector, 2**31, 2**31 + 1000).tolist() == list(range(2**31, 2**31 + 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


EMPTY = BitMap().serialize()
ONE = BitMap([1]).serialize()
PART = struct.Struct("<i")


@pytest.mark.parametrize(
    "parts",
    [
        struct.pack("<q", -1),
        struct.pack("<q", 2**62),
        struct.pack("<q", 100_000) + (PART.pack(0) + EMPTY) * 100_000,
        struct.pack("<q", 2) + PART.pack(0) + ONE,
        struct.pack("<q", 2) + PART.pack(0) + ONE + PART.pack(0) + ONE,
        struct.pack("<q", 1) + PART.pack(-1) + ONE,
        struct.pack("<q", 1) + PART.pack(0) + ONE + b"more",
        struct.pack("<q", 0) + b"more",
    ],
    ids=["negative", "huge", "many empty", "too few", "twice", "negative key", "rest", "rest of none"],
)
def test_parts_that_do_not_fit(parts: bytes) -> None:
    data, found = _vector(struct.pack("<i", 1681511377) + parts)
    with pytest.raises(CorruptTableError):
        read_vector(data, found)


@pytest.mark.parametrize("place", [(-33, 24), (0, 24), (1, -4), (1, 2**31 - 1), (2**31 - 1, 24), (1, 23)])
def test_places_that_are_not_in_the_file(place: tuple[int, int]) -> None:
    with pytest.raises(CorruptTableError):
        read_vector(FORM_32, DeletionRange("data-1", *place))

"""Hash index files and deletion vectors."""

from __future__ import annotations

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


def test_hashes_are_big_endian() -> None:
    hashes = np.array([1, -2, 2**31 - 1], np.int32)
    data = hash_index.encode(hashes)
    assert data.hex() == "00000001fffffffe7fffffff"
    assert hash_index.decode(data).tolist() == hashes.tolist()
    assert hash_index.decode(b"").tolist() == []
    with pytest.raises(CorruptTableError, match="index-9"):
        hash_index.decode(data[:-1], "index-9")


def test_both_forms_are_read() -> None:
    small = dv.read_vector(FORM_32, DeletionRange("data-1", 1, 24, 2))
    large = dv.read_vector(FORM_64, DeletionRange("data-1", 1, 44))
    assert list(small) == list(large) == [2, 1500]
    assert dv.positions(small).tolist() == [2, 1500]


def test_written_files_are_those_of_java() -> None:
    data, (found,) = dv.write_vectors({"data-1": BitMap([2, 1500])})
    assert data == FORM_32
    assert found == DeletionRange("data-1", 1, 24, 2)
    vectors = {"a": BitMap(range(1000)), "b": BitMap(), "c": BitMap([2**31])}
    data, ranges = dv.write_vectors(vectors)
    assert {r.data_file: dv.read_vector(data, r) for r in ranges} == vectors


@pytest.mark.parametrize("change", [0, 4, 8, 20, 30, 32])
def test_damage_is_named(change: int) -> None:
    bad = bytearray(FORM_32)
    bad[change] ^= 255
    found = DeletionRange("data-1", 1 if change else 5, 24)
    with pytest.raises(CorruptTableError, match=r"index-3 .* 'data-1'"):
        dv.read_vector(bytes(bad), found, "index-3")
    with pytest.raises(CorruptTableError):
        dv.read_vector(FORM_32[:20], DeletionRange("data-1", 1, 24))

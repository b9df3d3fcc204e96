"""The index ``bloom-filter``: the number of hash functions, then a bit set; excludes values that are not in a file.

A string is hashed by XXH64, a number by Thomas Wang's 64-bit mix. Bit i of the set is bit i modulo 8 of byte i / 8.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.values import Code, Domain, texts
from paimon_spark.format.file_index.xxhash64 import hash_bytes

_COUNT = struct.Struct(">i")
_DEFAULT_ITEMS, _DEFAULT_FPP = 1_000_000, 0.1
_MOST_FUNCTIONS = 1 << 10
_MOST_BITS = (1 << 31) - 8
Hashes = npt.NDArray[np.uint64]


def mix(numbers: npt.NDArray[np.int64]) -> Hashes:
    """Return the hashes of 64-bit numbers."""
    with np.errstate(over="ignore"):
        key = ~numbers + (numbers << 21)
        key = key ^ (key >> 24)
        key = key + (key << 3) + (key << 8)
        key = key ^ (key >> 14)
        key = key + (key << 2) + (key << 4)
        key = key ^ (key >> 28)
        return (key + (key << 31)).view(np.uint64)


def _places(hashes: Hashes, function: int, bits: int) -> npt.NDArray[np.int64]:
    """Return the bit that a hash function sets for each hash."""
    with np.errstate(over="ignore"):
        one, two = hashes.astype(np.uint32), (hashes >> np.uint64(32)).astype(np.uint32)
        combined = (one + np.uint32(function) * two).view(np.int32)
    return np.where(combined < 0, ~combined, combined).astype(np.int64) % bits


class BloomWriter:
    """Builds the index of one column of one file."""

    def __init__(self, domain: Domain, settings: Mapping[str, str]) -> None:
        self._domain = domain
        items, fpp = int(settings.get("items", _DEFAULT_ITEMS)), float(settings.get("fpp", _DEFAULT_FPP))
        bits = min(int(-items * math.log(fpp) / math.log(2) ** 2), _MOST_BITS)
        self._set = np.zeros(bits // 8 + 1, np.uint8)
        self._functions = max(1, math.floor(8 * len(self._set) / items * math.log(2) + 0.5))

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows."""
        hashes = _hashes(self._domain, values.drop_null())
        for function in range(1, self._functions + 1):
            at = _places(hashes, function, 8 * len(self._set))
            np.bitwise_or.at(self._set, at >> 3, np.left_shift(np.uint8(1), (at & 7).astype(np.uint8)))

    def finish(self) -> bytes | None:
        """Return the index."""
        return _COUNT.pack(self._functions) + self._set.tobytes()


def _hashes(domain: Domain, values: pa.Array) -> Hashes:
    if domain.is_text:
        return hash_bytes(*texts(values))
    return mix(domain.stored(domain.numbers(values)))


class BloomReader(IndexReader):
    """Reads an index.

    Raises:
        ValueError: it is malformed.
    """

    exact = False

    def __init__(self, data: bytes, domain: Domain) -> None:
        if len(data) <= _COUNT.size:
            raise ValueError(f"its bloom filter has {len(data)} bytes")
        (self._functions,) = _COUNT.unpack_from(data)
        if not 1 <= self._functions <= _MOST_FUNCTIONS:
            raise ValueError(f"its bloom filter has {self._functions} hash functions")
        self._set = np.frombuffer(data, np.uint8, offset=_COUNT.size)
        self._domain = domain

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return no rows if none of the values is in the file."""
        if self._domain.is_text:
            hashes = hash_bytes(*texts(pa.array(codes, pa.large_binary())))
        else:
            hashes = mix(self._domain.stored(np.array(codes, np.int64)))
        held = np.ones(len(hashes), bool)
        for function in range(1, self._functions + 1):
            at = _places(hashes, function, 8 * len(self._set))
            held &= (self._set[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(bool)
        return None if held.any() else BitMap()

"""The dictionary of a range bitmap: distinct values in ascending order, in chunks.

A chunk has a header with its first value and that value's code. Its other values follow the headers of all chunks.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from paimon_spark.format.file_index.container import NewerVersionError
from paimon_spark.format.file_index.values import Code, Distinct, Domain

_VERSION = 1
_INT = struct.Struct(">i")
_HEAD = struct.Struct(">biii")
_FIXED_CHUNK = struct.Struct(">iiiii")
_TEXT_CHUNK = struct.Struct(">iiiii")


def write_dictionary(distinct: Distinct, limit: int) -> bytes:
    """Return the dictionary of values; the values of a chunk after the first one take at most `limit` bytes."""
    sizes = distinct.sizes()
    ends = np.cumsum(sizes)
    headers: list[bytes] = []
    keys: list[bytes] = []
    at = first = 0
    while first < len(sizes):
        stop = int(np.searchsorted(ends, ends[first] + limit, side="right"))
        if distinct.domain.is_text:
            stop = min(stop, first + 1 + limit // _INT.size)
        header, body = _chunk(distinct, sizes, first, max(stop, first + 1), at)
        headers.append(header)
        keys.append(body)
        at += len(body)
        first = max(stop, first + 1)
    places = np.cumsum([0, *map(len, headers[:-1])]) if headers else np.zeros(0)
    listed = places.astype(">i4").tobytes()
    chunks = b"".join(headers)
    head = _HEAD.pack(_VERSION, len(headers), len(listed), len(chunks))
    return _INT.pack(len(head)) + head + listed + chunks + b"".join(keys)


def _chunk(distinct: Distinct, sizes: Any, first: int, stop: int, at: int) -> tuple[bytes, bytes]:
    """Return the header of a chunk, and its values after the first one."""
    rest = slice(first + 1, stop)
    body = distinct.records(part=rest)
    key = distinct.records(part=slice(first, first + 1))
    if not distinct.domain.is_text:
        width = distinct.domain.width
        return bytes([_VERSION]) + key + _FIXED_CHUNK.pack(first, at, stop - first - 1, len(body), width), body
    own = sizes[rest]
    offsets = (np.cumsum(own) - own).astype(">i4").tobytes()
    header = _TEXT_CHUNK.pack(first, at, stop - first - 1, len(offsets), len(body))
    return bytes([_VERSION]) + key + header, offsets + body


class DictionaryReader:
    """Finds the codes of values; chunks are parsed on demand.

    Raises:
        ValueError: the dictionary is malformed.
        NewerVersionError: it has an unknown version.
    """

    def __init__(self, data: bytes, domain: Domain) -> None:
        self._data, self._domain = data, domain
        (length,) = _INT.unpack_from(data)
        version, self._chunks, listed, chunks = _HEAD.unpack_from(data, _INT.size)
        _check_version(version)
        start = _INT.size + length
        if listed != _INT.size * self._chunks or min(length, chunks) < 0 or start + listed + chunks > len(data):
            raise ValueError("the dictionary of its range bitmap is truncated")
        self._places = start + listed + np.frombuffer(data, ">i4", self._chunks, start).astype(np.int64)
        self._keys = start + listed + chunks

    def find(self, code: Code) -> tuple[int, bool]:
        """Return the position of a value, or of the first greater one, and whether the value is in the dictionary."""
        low, high = 0, self._chunks
        while low < high:
            middle = (low + high) // 2
            if self._first(middle)[0] <= code:  # type: ignore[operator]
                low = middle + 1
            else:
                high = middle
        return (0, False) if low == 0 else self._find_in(low - 1, code)

    def _first(self, chunk: int) -> tuple[Code, int]:
        """Return the first value of a chunk, and where its header continues."""
        at = int(self._places[chunk])
        _check_version(self._data[at])
        return self._value(at + 1)

    def _value(self, at: int) -> tuple[Code, int]:
        if not self._domain.is_text:
            end = at + self._domain.width
            stored = int.from_bytes(self._data[at:end], "big", signed=True)
            return int(self._domain.codes(np.array([stored]))[0]), end
        (length,) = _INT.unpack_from(self._data, at)
        end = at + _INT.size + length
        if length < 0 or end > len(self._data):
            raise ValueError("the dictionary of its range bitmap is truncated")
        return self._data[at + _INT.size : end], end

    def _find_in(self, chunk: int, code: Code) -> tuple[int, bool]:
        key, at = self._first(chunk)
        first, offset, size, third, fourth = _FIXED_CHUNK.unpack_from(self._data, at)
        if key == code:
            return first, True
        start = self._keys + offset
        length = third + fourth if self._domain.is_text else third
        if size < 0 or offset < 0 or length < 0 or start + length > len(self._data):
            raise ValueError("the dictionary of its range bitmap is truncated")
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            found = self._member(start, third, middle)
            if found == code:
                return first + 1 + middle, True
            if found < code:  # type: ignore[operator]
                low = middle + 1
            else:
                high = middle
        return first + 1 + low, False

    def _member(self, start: int, offsets: int, index: int) -> Code:
        if not self._domain.is_text:
            return self._value(start + index * self._domain.width)[0]
        (at,) = _INT.unpack_from(self._data, start + index * _INT.size)
        return self._value(start + offsets + at)[0]


def _check_version(version: int) -> None:
    if version > _VERSION:
        raise NewerVersionError(
            f"the dictionary of its range bitmap has the version {version}, and the known version is {_VERSION}"
        )

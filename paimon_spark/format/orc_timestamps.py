"""Timestamps of ORC files outside 1677 to 2262.

pyarrow delivers ORC timestamps in nanoseconds and refuses a stripe that holds any beyond that range, such as the
popular 9999-12-31. Then the top-level timestamp columns are decoded here, in the unit that the table declares.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.orc_encodings import booleans, integers, messages
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_EPOCH_2015 = 1420070400
_PRESENT, _DATA, _SECONDARY = 0, 1, 5
_DIRECT_V2 = 2
_INSTANT = 18
_NONE, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5
_TAIL_GUESS = 1 << 16
_PER_SECOND = {"ms": 1000, "us": 1_000_000}


def is_timestamp(f: DataField) -> bool:
    """Return whether a column holds timestamps at its top level."""
    return isinstance(f.type, AtomicType) and f.type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def read_timestamps(source: pa.NativeFile, stripe: int, fields: Sequence[DataField]) -> list[pa.Array]:
    """Return the top-level timestamp columns of one stripe, which the file must have.

    Raises:
        UnsupportedError: the file uses an encoding or compression that is not known here.
    """
    tail = _Tail.read(source)
    return [_column(source, tail, stripe, f) for f in fields]


@dataclass(frozen=True, slots=True)
class _Stripe:
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Tail:
    """What the end of the file says: compression, stripes, and id and kind of each top-level column."""

    compression: int
    stripes: tuple[_Stripe, ...]
    columns: dict[str, tuple[int, int]]

    @staticmethod
    def read(source: pa.NativeFile) -> _Tail:
        size = source.size()
        source.seek(max(0, size - _TAIL_GUESS))
        data = source.read()
        ps_length = data[-1]
        script = dict(messages(data[-1 - ps_length : -1]))
        footer_length, compression = _number(script[1]), _number(script.get(2, 0))
        end = size - 1 - ps_length
        source.seek(end - footer_length)
        footer = list(messages(_inflate(source.read(footer_length), compression)))
        stripes = tuple(_stripe(v) for n, v in footer if n == 3 and isinstance(v, bytes))
        types = [list(messages(v)) for n, v in footer if n == 4 and isinstance(v, bytes)]
        kinds = [_number(dict(t).get(1, 0)) for t in types]
        ids = _subtypes(types[0])
        names = [v.decode() for n, v in types[0] if n == 3 and isinstance(v, bytes)]
        return _Tail(compression, stripes, {n: (i, kinds[i]) for n, i in zip(names, ids, strict=True)})


def _column(source: pa.NativeFile, tail: _Tail, stripe: int, f: DataField) -> pa.Array:
    column, kind = tail.columns[f.name]
    place = tail.stripes[stripe]
    source.seek(place.offset + place.index_length + place.data_length)
    footer = list(messages(_inflate(source.read(place.footer_length), tail.compression)))
    encodings = [dict(messages(v)) for n, v in footer if n == 2 and isinstance(v, bytes)]
    if encodings[column].get(1, 0) != _DIRECT_V2:
        raise _unsupported("an encoding older than ORC 0.12")
    streams: dict[int, bytes] = {}
    at = place.offset
    for raw in (dict(messages(v)) for n, v in footer if n == 1 and isinstance(v, bytes)):
        length = _number(raw.get(3, 0))
        if raw.get(2, 0) == column:
            source.seek(at)
            streams[_number(raw.get(1, 0))] = source.read(length)
        at += length
    present = _inflate(streams[_PRESENT], tail.compression) if _PRESENT in streams else None
    valid = np.ones(place.rows, np.bool_) if present is None else booleans(present, place.rows)
    count = int(valid.sum())
    seconds = integers(_inflate(streams.get(_DATA, b""), tail.compression), count, signed=True)
    nanos = _nanos(integers(_inflate(streams.get(_SECONDARY, b""), tail.compression), count, signed=False))
    zone = (
        "UTC" if kind == _INSTANT else next((v.decode() for n, v in footer if n == 3 and isinstance(v, bytes)), "UTC")
    )
    return _array(_wall_seconds(seconds, nanos, zone), nanos, valid, f)


def _nanos(stored: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Undo the packing of nanoseconds: the low three bits count the zeros that were cut, less one."""
    zeros = stored & 7
    return (stored >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)


def _wall_seconds(seconds: npt.NDArray[np.int64], nanos: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Return epoch seconds of the wall clock in the writer's zone; stored ones count from 2015 in that zone."""
    if zone in ("UTC", "GMT", ""):
        wall = seconds + _EPOCH_2015
    else:
        local = pa.array([_EPOCH_2015], pa.int64()).cast(pa.timestamp("s"))
        base = pc.assume_timezone(local, zone).cast(pa.int64())[0].as_py()
        instants = pa.array(seconds + base, pa.int64()).cast(pa.timestamp("s", zone))
        wall = pc.local_timestamp(instants).cast(pa.int64()).to_numpy()
    return np.asarray(wall - ((wall < 0) & (nanos > 999_999)), np.int64)


def _array(
    seconds: npt.NDArray[np.int64], nanos: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_], f: DataField
) -> pa.Array:
    target = to_arrow_type(f.type)
    if target.unit not in _PER_SECOND:
        raise _unsupported("timestamps of more than 6 digits outside 1677 to 2262")
    per_second = _PER_SECOND[target.unit]
    values = np.zeros(len(valid), np.int64)
    values[valid] = seconds * per_second + nanos // (1_000_000_000 // per_second)
    return pa.array(values, pa.int64(), mask=~valid).cast(target)


def _inflate(data: bytes, compression: int) -> bytes:
    """Undo the compression of a stream: chunks with a three-byte header that tells length and whether it is plain."""
    if compression == _NONE:
        return data
    out = bytearray()
    at = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        at += 3 + (header >> 1)
        out += chunk if header & 1 else _inflate_chunk(chunk, compression)
    return bytes(out)


def _inflate_chunk(chunk: bytes, compression: int) -> bytes:
    if compression == _ZSTD:
        return zstd.decompress(chunk)
    if compression == _ZLIB:
        return zlib.decompress(chunk, -15)
    raise _unsupported("a compression other than zstd and zlib")


def _subtypes(message: Sequence[tuple[int, int | bytes]]) -> list[int]:
    """Return the ids of the members of a type; the list is packed or not."""
    out: list[int] = []
    for number, value in message:
        if number == 2 and isinstance(value, bytes):
            out += _packed(value)
        elif number == 2 and isinstance(value, int):
            out.append(value)
    return out


def _packed(data: bytes) -> list[int]:
    from_ends = [i for i, b in enumerate(data) if b < 128]
    starts = [0, *(e + 1 for e in from_ends[:-1])]
    return [
        sum((b & 127) << 7 * k for k, b in enumerate(data[s : e + 1])) for s, e in zip(starts, from_ends, strict=True)
    ]


def _stripe(message: bytes) -> _Stripe:
    raw = dict(messages(message))
    return _Stripe(*(_number(raw.get(i, 0)) for i in range(1, 6)))


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError("a number was expected")
    return value


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"The ORC file has timestamps outside 1677 to 2262 together with {what}.",
        hint="Rewrite it with Paimon, as Parquet or with the compression zstd.",
    )

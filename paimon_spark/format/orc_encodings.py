"""The encodings of ORC streams that timestamps need: byte runs, integer runs (version 2) and protobuf messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
_ULongs = npt.NDArray[np.uint64]

_WIDE = (26, 28, 30, 32, 40, 48, 56, 64)
_NARROW = 24


def messages(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a protobuf message: a number, or the bytes of anything that has a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("unknown kind of protobuf field")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the base-128 number at `at` and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def booleans(data: bytes, count: int) -> npt.NDArray[np.bool_]:
    """Return `count` bits of a run-length encoded bit stream."""
    out = bytearray()
    at = 0
    while len(out) * 8 < count:
        control = data[at]
        if control < 128:
            out += data[at + 1 : at + 2] * (control + 3)
            at += 2
        else:
            out += data[at + 1 : at + 257 - control]
            at += 257 - control
    return np.unpackbits(np.frombuffer(bytes(out), np.uint8), count=count).astype(np.bool_)


def integers(data: bytes, count: int, *, signed: bool) -> Longs:
    """Return `count` numbers of an integer stream in run-length encoding version 2."""
    parts: list[Longs] = []
    at = have = 0
    while have < count:
        run, at = (_short, _direct, _patched, _delta)[data[at] >> 6](data, at, signed)
        parts.append(run)
        have += len(run)
    return np.concatenate(parts)[:count] if parts else np.zeros(0, np.int64)


def _width(code: int) -> int:
    return code + 1 if code < _NARROW else _WIDE[code - _NARROW]


def _closest(bits: int) -> int:
    return max(bits, 1) if bits <= _NARROW else next(w for w in _WIDE if w >= bits)


def _unpack(data: bytes, at: int, count: int, width: int) -> tuple[_ULongs, int]:
    size = (count * width + 7) // 8
    bits = np.unpackbits(np.frombuffer(data, np.uint8, size, at), count=count * width).reshape(count, width)
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint64)
    return (bits.astype(np.uint64) << shifts).sum(axis=1, dtype=np.uint64), at + size


def _plain(values: _ULongs, signed: bool) -> Longs:  # noqa: FBT001
    if not signed:
        return values.astype(np.int64)
    half = (values >> np.uint64(1)).astype(np.int64)
    return half ^ -(values & np.uint64(1)).astype(np.int64)


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the width code, the number of values and the position after the two bytes."""
    return data[at] >> 1 & 31, ((data[at] & 1) << 8 | data[at + 1]) + 1, at + 2


def _short(data: bytes, at: int, signed: bool) -> tuple[Longs, int]:  # noqa: FBT001
    size, count = (data[at] >> 3 & 7) + 1, (data[at] & 7) + 3
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    return np.full(count, _zigzag(value) if signed else value, np.int64), at + 1 + size


def _direct(data: bytes, at: int, signed: bool) -> tuple[Longs, int]:  # noqa: FBT001
    code, count, at = _header(data, at)
    values, at = _unpack(data, at, count, _width(code))
    return _plain(values, signed), at


def _patched(data: bytes, at: int, signed: bool) -> tuple[Longs, int]:  # noqa: FBT001
    del signed
    code, count, at = _header(data, at)
    width = _width(code)
    base_size, patch_width = (data[at] >> 5) + 1, _width(data[at] & 31)
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    at += 2
    base = int.from_bytes(data[at : at + base_size], "big")
    sign = 1 << base_size * 8 - 1
    base = -(base & sign - 1) if base & sign else base
    values, at = _unpack(data, at + base_size, count, width)
    entries, at = _unpack(data, at, patches, _closest(patch_width + gap_width))
    place = 0
    for entry in entries.tolist():
        place += entry >> patch_width
        patch = entry & (1 << patch_width) - 1
        if patch:
            values[place] |= np.uint64(patch << width)
    return values.astype(np.int64) + base, at


def _delta(data: bytes, at: int, signed: bool) -> tuple[Longs, int]:  # noqa: FBT001
    code, count, at = _header(data, at)
    first, at = varint(data, at)
    step_bits, at = varint(data, at)
    step = _zigzag(step_bits)
    steps = np.full(count, step, np.int64)
    steps[0] = _zigzag(first) if signed else first
    if code and count > 2:
        sizes, at = _unpack(data, at, count - 2, _width(code))
        steps[2:] = sizes.astype(np.int64) * (-1 if step < 0 else 1)
    return np.cumsum(steps), at

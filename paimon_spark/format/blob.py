"""BLOB files: the values of one BLOB column, one after another, and an index of their lengths at the end.

Each value is framed: a magic number before it, the length of the frame and a checksum after it. The index has the
length of the frame of each row, -1 for null and -2 for a row whose value is in an older file, as differences in
variable-length integers; the length of the index and a version follow it. All numbers are little endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import I64
from paimon_spark.format.read_errors import damaged, data_file_errors
from paimon_spark.format.varints import unzigzag, varints, zigzag
from paimon_spark.fs.base import FileIO

NULL, ELSEWHERE = -1, -2
"""Lengths that stand for a null, and for a value that is in an older file."""
_MAGIC = (1481511375).to_bytes(4, "little")
_BEFORE, _AFTER = 4, 12
FRAME = _BEFORE + _AFTER
"""Bytes of a frame beside its value."""
_VERSION = 1
_FOOTER = 5
_SEVEN, _MORE = 0x7F, 0x80
_MOST_BYTES = 10
_MOST_TOGETHER = 2**31 - 1
_DESCRIPTOR = struct.pack("<B", 2) + struct.pack("<q", 0x424C4F4244455343)
"""The version of a reference to a value, and its magic number."""
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class BlobIndex:
    """The index of one BLOB file: where the value of each row is.

    Attributes:
        path: path of the file.
        lengths: length of the frame of each row, or `NULL` or `ELSEWHERE`.
        offsets: where each frame begins; of a row without one, where the next frame begins.
    """

    path: str
    lengths: I64
    offsets: I64

    @property
    def sizes(self) -> I64:
        """Return the size of the value of each row, 0 without one."""
        return np.maximum(self.lengths - FRAME, 0)


def read_index(file_io: FileIO, path: str, file_size: int) -> BlobIndex:
    """Read the index of a file.

    Raises:
        CorruptTableError: the file is missing or damaged.
    """
    with data_file_errors(path, file_size):
        footer = file_io.read_range(path, max(file_size - _FOOTER, 0), _FOOTER)
        if len(footer) < _FOOTER or footer[-1] != _VERSION:
            raise ValueError("it does not end like a BLOB file")
        size = int.from_bytes(footer[:4], "little")
        begin = file_size - _FOOTER - size
        if begin < 0:
            raise ValueError("its index is longer than the file")
        lengths = decode_lengths(file_io.read_range(path, begin, size) if size else b"")
        frames = np.maximum(lengths, 0)
        ends = np.cumsum(frames)
        short = (lengths < FRAME) & (lengths != NULL) & (lengths != ELSEWHERE)
        if short.any() or (len(ends) and int(ends[-1]) != begin):
            raise ValueError("its index does not fit its values")
        return BlobIndex(path, lengths, ends - frames)


def read_values(file_io: FileIO, index: BlobIndex, first: int, last: int) -> pa.Array:
    """Return the values of the rows from `first` to before `last`; rows without one here are null.

    Raises:
        CorruptTableError: the file is damaged.
    """
    lengths, offsets = index.lengths[first:last], index.offsets[first:last]
    held = np.flatnonzero(lengths >= 0)
    if not len(held):
        return pa.nulls(last - first, pa.binary())
    begin, end = int(offsets[held[0]]), int(offsets[held[-1]] + lengths[held[-1]])
    with data_file_errors(index.path):
        data = np.frombuffer(file_io.read_range(index.path, begin, end - begin), np.uint8)
        if len(data) != end - begin:
            raise damaged(index.path, EOFError("it ends within its values"), None, None)
        starts = offsets[held] - begin
        if not (data[starts[:, None] + np.arange(_BEFORE)] == np.frombuffer(_MAGIC, np.uint8)).all():
            raise ValueError("a value does not begin with the magic number of BLOB files")
        values = data[_inside(starts, lengths[held], len(data))]
        ends = np.cumsum(np.maximum(lengths - FRAME, 0))
        if int(ends[-1]) > _MOST_TOGETHER:
            raise pa.ArrowCapacityError(f"a value has {int(lengths.max()) - FRAME} bytes")
        bounds = pa.array(np.concatenate([[0], ends]), pa.int64()).cast(pa.int32())
        valid = pa.array(lengths >= 0)
        buffers = [valid.buffers()[1], bounds.buffers()[1], pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.binary(), last - first, buffers, int((lengths < 0).sum()))


def _inside(starts: I64, lengths: I64, size: int) -> npt.NDArray[np.bool_]:
    """Return which bytes belong to values, and not to their frames."""
    keep = np.ones(size, np.bool_)
    keep[(starts[:, None] + np.arange(_BEFORE)).ravel()] = False
    keep[((starts + lengths - _AFTER)[:, None] + np.arange(_AFTER)).ravel()] = False
    return keep


def descriptors(index: BlobIndex, first: int, last: int) -> pa.Array:
    """Return references to the values of the rows from `first` to before `last`: file, offset and length."""
    lengths, n = index.lengths[first:last], last - first
    path = index.path.encode()
    head = _DESCRIPTOR + struct.pack("<i", len(path)) + path
    rows = np.zeros((n, len(head) + 16), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    places = np.stack([index.offsets[first:last] + _BEFORE, lengths - FRAME], axis=1).astype("<i8")
    rows[:, len(head) :] = places.view(np.uint8).reshape(n, 16)
    whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), n, [None, pa.py_buffer(rows)])
    return pc.if_else(pa.array(lengths >= 0), whole.cast(pa.binary()), pa.scalar(None, pa.binary()))


def framed(values: pa.Array) -> tuple[bytes, I64]:
    """Return values as they are stored, and the length of the frame of each row."""
    held = values.drop_null()
    sizes = pc.fill_null(pc.binary_length(values).cast(pa.int64()), NULL - FRAME)
    lengths = sizes.to_numpy(zero_copy_only=False) + FRAME
    frames = lengths[lengths >= 0]
    ends = np.cumsum(frames)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    if not len(out):
        return b"", lengths
    starts = ends - frames
    bounds = np.frombuffer(held.buffers()[1], np.int32)[held.offset : held.offset + len(held) + 1]
    if bounds[-1] > bounds[0]:
        out[_inside(starts, frames, len(out))] = np.frombuffer(held.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    out[starts[:, None] + np.arange(_BEFORE)] = np.frombuffer(_MAGIC, np.uint8)
    out[(ends - _AFTER)[:, None] + np.arange(8)] = frames.astype("<i8").view(np.uint8).reshape(-1, 8)
    data = memoryview(out.data)
    checked = map(data.__getitem__, map(slice, starts.tolist(), (ends - 4).tolist()))
    sums = np.fromiter(map(zlib.crc32, checked), np.uint32, len(frames))
    out[(ends - 4)[:, None] + np.arange(4)] = sums.astype("<u4").view(np.uint8).reshape(-1, 4)
    return out.tobytes(), lengths


def index_of(lengths: Sequence[I64]) -> bytes:
    """Return the end of a file after the values: the index, its length and the version."""
    index = encode_lengths(np.concatenate([np.zeros(0, np.int64), *lengths]))
    return index + struct.pack("<iB", len(index), _VERSION)


def decode_lengths(data: bytes) -> I64:
    """Return the lengths of an index.

    Raises:
        ValueError: the index is damaged.
    """
    found = np.frombuffer(data, np.uint8)
    if not len(found):
        return np.zeros(0, np.int64)
    last = np.flatnonzero(found < _MORE)
    if not len(last) or last[-1] != len(found) - 1:
        raise ValueError("its index ends within a number")
    starts = np.concatenate([[0], last[:-1] + 1])
    counts = last - starts + 1
    if int(counts.max()) > _MOST_BYTES:
        raise ValueError("a number in its index is too long")
    shifts = 7 * (np.arange(len(found)) - np.repeat(starts, counts))
    parts = (found & _SEVEN).astype(np.uint64) << shifts.astype(np.uint64)
    coded = np.bitwise_or.reduceat(parts, starts)
    return np.cumsum(unzigzag(coded))


def encode_lengths(lengths: I64) -> bytes:
    """Return lengths in the encoding of an index."""
    return varints(zigzag(np.diff(lengths, prepend=np.int64(0))))[0].tobytes()

"""INT96 timestamps in Parquet, which Paimon uses for precisions above six digits.

pyarrow has three limitations: it writes INT96 for all timestamps of a file or for none; before 1970 it writes a
negative time of day, which Java readers reject; and it misreads INT96 values outside 1677 to 2262 as nanoseconds. INT96
has the same encoding as a fixed-length byte array of 12 bytes. This module therefore encodes and decodes the values
itself and rewrites the column type in the file's footer, a Thrift compact protocol message.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.format.timestamp_ranges import BILLION, check_range, timestamps

AS_BYTES = pa.binary(12)
_LAYOUT = np.dtype([("nanos", "<i8"), ("day", "<u4")])
_DAY = 86_400
_JULIAN_EPOCH = 2_440_588
_MAGIC = b"PAR1"
_INT96, _FIXED = 0x06, 0x0E
"""Field headers of the types 3 (INT96) and 7 (FIXED_LEN_BYTE_ARRAY) in the compact protocol."""
_LENGTH = b"\x15\x18"
"""Field 2 after field 1: a length of 12."""
_STRUCT, _LISTS, _MAP = 12, (9, 10), 11


def to_int96(array: pa.Array) -> pa.Array:
    """Return nanosecond timestamps, at any nesting depth, as INT96 bytes."""
    t = array.type
    if not has_nanos(t):
        return array
    whole = pa.concat_arrays([array.slice(0, 0), array]) if array.offset else array
    if pa.types.is_timestamp(t):
        numbers = pc.fill_null(whole.cast(pa.int64()), 0).to_numpy()
        days = numbers // (_DAY * BILLION)
        packed = np.empty(len(array), _LAYOUT)
        packed["nanos"], packed["day"] = numbers - days * (_DAY * BILLION), days + _JULIAN_EPOCH
        valid = whole.is_valid().buffers()[1]
        return pa.Array.from_buffers(AS_BYTES, len(whole), [valid, pa.py_buffer(packed.tobytes())])
    target, mask = as_bytes(t), whole.is_null()
    if pa.types.is_list(t):
        return pa.ListArray.from_arrays(whole.offsets, to_int96(whole.values), type=target, mask=mask)
    if pa.types.is_map(t):
        keys, items = to_int96(whole.keys), to_int96(whole.items)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=target, mask=mask)
    parts = [to_int96(whole.field(i)) for i in range(t.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)


def from_int96(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return INT96 bytes as timestamps of type `target`.

    Raises:
        OutOfRangeError: a timestamp is out of range of the type.
    """
    data = array.drop_null()
    packed = np.frombuffer(data.buffers()[1] or b"", _LAYOUT, len(data), data.offset * _LAYOUT.itemsize)
    carried = packed["nanos"] // BILLION
    seconds = (packed["day"].astype(np.int64) - _JULIAN_EPOCH) * _DAY + carried
    nanos = packed["nanos"] - carried * BILLION
    check_range(seconds, nanos, target)
    return timestamps(array, seconds, nanos, target)


def has_nanos(t: pa.DataType) -> bool:
    """Return whether a type is, or contains, a timestamp in nanoseconds."""
    if pa.types.is_timestamp(t):
        return bool(t.unit == "ns")
    return any(has_nanos(t.field(i).type) for i in range(t.num_fields))


def as_bytes(t: pa.DataType) -> pa.DataType:
    """Return a type with 12-byte binary in place of nanosecond timestamps."""
    if pa.types.is_timestamp(t):
        return AS_BYTES if t.unit == "ns" else t
    if pa.types.is_list(t):
        return pa.list_(field_as_bytes(t.value_field))
    if pa.types.is_map(t):
        return pa.map_(field_as_bytes(t.key_field), field_as_bytes(t.item_field))
    return pa.struct([field_as_bytes(f) for f in t]) if pa.types.is_struct(t) else t


def field_as_bytes(f: pa.Field) -> pa.Field:
    """Return a field with 12-byte binary in place of nanosecond timestamps."""
    return f.with_type(as_bytes(f.type))


def shown_as_bytes(source: pa.NativeFile, metadata: pq.FileMetaData) -> pq.FileMetaData:
    """Return the file metadata with fixed-length binary in place of INT96; unchanged if there is no INT96."""
    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).physical_type == "INT96"]
    if not leaves:
        return metadata
    size = source.size()
    length = int.from_bytes(source.read_at(4, size - 8), "little")
    footer = _retyped(source.read_at(length, size - 8 - length), leaves, _FIXED)
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC))


class Int96Sink(io.RawIOBase):
    """A sink for a Parquet file that changes columns from fixed-length binary to INT96 in the footer.

    Args:
        out: the output stream.
        leaves: indexes of the columns, counted over leaf columns.
    """

    def __init__(self, out: pa.NativeFile, leaves: Collection[int]) -> None:
        self._out = out
        self._leaves = leaves
        self._footer: list[bytes] | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Write bytes, or buffer them if they belong to the footer."""
        if self._footer is None:
            self._out.write(data)
        else:
            self._footer.append(bytes(data))
        return len(data)

    def end(self) -> None:
        """Mark the end of the row groups; everything after it is the footer."""
        self._footer = []

    def finish(self) -> None:
        """Write the modified footer."""
        data = b"".join(self._footer or ())
        length = int.from_bytes(data[-8:-4], "little")
        footer = _retyped(data[-8 - length : -8], self._leaves, _INT96)
        self._out.write(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:])


def _retyped(footer: bytes, leaves: Collection[int], kind: int) -> bytes:
    """Return a footer with the type of the given columns changed."""
    edits: list[tuple[int, int, bytes]] = []
    thrift = _Thrift(footer)
    for number, _ in thrift.fields():
        if number == 2:
            edits += _of_schema(thrift, leaves, kind)
        elif number == 4:
            edits += _of_row_groups(thrift, leaves, kind)
    out = bytearray(footer)
    for at, size, new in sorted(edits, reverse=True):
        out[at : at + size] = new
    return bytes(out)


def _of_schema(thrift: _Thrift, leaves: Collection[int], kind: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the changes in the list of schema elements: leaf elements have a type, in field 1."""
    leaf = -1
    for _ in thrift.elements():
        wanted = False
        previous = 0
        for number, header in thrift.fields():
            if number == 1:
                leaf += 1
                wanted = leaf in leaves
                if wanted:
                    yield thrift.at, 1, bytes([kind])
            elif wanted and previous == 1 and kind == _FIXED:
                if number == 2:
                    yield thrift.at, thrift.width(), _LENGTH[1:]
                else:
                    yield header, 1, _LENGTH + bytes([thrift.data[header] - 0x10])
            previous = number


def _of_row_groups(thrift: _Thrift, leaves: Collection[int], kind: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the changes in the row groups: field 1 is the columns, whose field 3, the metadata, has the type in 1."""
    for _ in thrift.elements():
        for of_group, _ in thrift.fields():
            if of_group != 1:
                continue
            for leaf in thrift.elements():
                for of_chunk, _ in thrift.fields():
                    if of_chunk != 3:
                        continue
                    for of_metadata, _ in thrift.fields():
                        if of_metadata == 1 and leaf in leaves:
                            yield thrift.at, 1, bytes([kind])


class _Thrift:
    """A reader of a Thrift compact protocol message that skips the fields the caller does not descend into."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the id of each struct field and the position of its header."""
        number = 0
        while True:
            header_at = self.at
            header = self.data[self.at]
            self.at += 1
            if not header & 15:
                return
            number = number + (header >> 4) if header >> 4 else self._zigzag()
            value_at = self.at
            yield number, header_at
            if self.at == value_at:
                self._skip(header & 15)

    def elements(self) -> Iterator[int]:
        """Yield the position of each list element."""
        count, kind = self._list()
        for i in range(count):
            value_at = self.at
            yield i
            if self.at == value_at:
                self._skip_element(kind)

    def width(self) -> int:
        """Return the encoded length of the varint at the current position."""
        end = self.at
        while self.data[end] > 127:
            end += 1
        return end + 1 - self.at

    def _list(self) -> tuple[int, int]:
        header = self.data[self.at]
        self.at += 1
        return (self._varint() if header >> 4 == 15 else header >> 4), header & 15

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip_element(self, kind: int) -> None:
        self.at += kind in (1, 2)
        self._skip(kind)

    def _skip(self, kind: int) -> None:
        if kind in (3, 7):
            self.at += 1 if kind == 3 else 8
        elif kind in (4, 5, 6):
            self.at += self.width()
        elif kind == 8:
            length = self._varint()
            self.at += length
        elif kind in _LISTS:
            for _ in self.elements():
                pass
        elif kind == _STRUCT:
            for _ in self.fields():
                pass
        elif kind == _MAP:
            self._skip_map()
        elif kind not in (1, 2):
            raise ValueError("unknown kind of field in the footer")

    def _skip_map(self) -> None:
        count = self._varint()
        kinds = self.data[self.at] if count else 0
        self.at += bool(count)
        for _ in range(count):
            self._skip_element(kinds >> 4)
            self._skip_element(kinds & 15)

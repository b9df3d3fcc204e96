"""The atomic types of Avro: how their values are walked over and converted to Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.avro.schema import INTEGERS
from paimon_spark.format.avro.walk import Content, Node, Notes, UnusualError
from paimon_spark.format.binary_values import with_nulls
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_DECIMAL_BYTES = 16
_FIXED: dict[str, np.dtype[Any]] = {
    "boolean": np.dtype("u1"),
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
}
_WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, *INTEGERS)
_TEXT, _BYTES = (TypeRoot.CHAR, TypeRoot.VARCHAR), (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)
_READ_AS: dict[str, tuple[TypeRoot, ...]] = {
    "boolean": (TypeRoot.BOOLEAN,),
    "int": _WHOLE,
    "long": _WHOLE,
    "float": (TypeRoot.FLOAT,),
    "double": (TypeRoot.DOUBLE,),
    "string": _TEXT,
    "bytes": _BYTES,
    "enum": (),
    "fixed": (),
}
"""The types that the values of each Avro type may be read as here."""


def leaf(name: str, schema: dict[str, Any], wanted: DataType | None, content: Content) -> Node:
    """Return the node of an atomic Avro type.

    Args:
        name: the name of the Avro type.
        schema: its schema.
        wanted: the type of the column; None if it is not read.
        content: the blocks.

    Raises:
        UnusualError: the values are not converted to the wanted type here.
    """
    if wanted is not None:
        if not isinstance(wanted, AtomicType):
            raise UnusualError
        if name == "bytes" and schema.get("logicalType") == "decimal" and wanted.root is TypeRoot.DECIMAL:
            scale = schema.get("scale", 0)
            if type(scale) is not int or not 0 <= scale <= 38:
                raise UnusualError
            return _Decimals(content, wanted, scale)
        if schema.get("logicalType") == "decimal" or wanted.root not in _READ_AS.get(name, ()):
            raise UnusualError
    if name in _FIXED:
        return _Fixed(content, wanted, _FIXED[name].itemsize, _FIXED[name])
    if name == "fixed":
        return _Fixed(content, None, int(schema["size"]), np.dtype("u1"))
    if name in ("int", "long", "enum"):
        return _Numbers(content, wanted)
    if name in ("string", "bytes"):
        return _Texts(content, wanted)
    raise UnusualError


@dataclass(slots=True)
class _Fixed:
    """Values of a fixed size."""

    content: Content
    wanted: AtomicType | None
    size: int
    dtype: np.dtype[Any]
    notes: Notes = field(default_factory=Notes)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        del ends
        if self.wanted is not None:
            self.notes.add(slots, at)
        return at + self.size

    def array(self, places: I64 | None, count: int) -> pa.Array:
        starts, present = self.notes.placed(places, count)
        values = self.content.bytes[starts[:, None] + np.arange(self.size)].view(self.dtype).reshape(-1)
        if self.wanted is not None and self.wanted.root is TypeRoot.BOOLEAN:
            if (values > 1).any():
                raise ValueError("a boolean is neither 0 nor 1")
            values = values.astype(np.bool_)
        return with_nulls(pa.array(values), present)


@dataclass(slots=True)
class _Numbers:
    """Values of a variable number of bytes: int, long, and the indexes of enums."""

    content: Content
    wanted: AtomicType | None
    notes: Notes = field(default_factory=Notes)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        del ends
        if self.wanted is not None:
            self.notes.add(slots, at)
        return at + self.content.spans[at]

    def array(self, places: I64 | None, count: int) -> pa.Array:
        starts, present = self.notes.placed(places, count)
        values, wanted = pa.array(self.content.numbers(starts)), self.wanted
        if wanted is not None:
            values = values.cast(INTEGERS.get(wanted.root, values.type)).cast(to_arrow_type(wanted))
        return with_nulls(values, present)


@dataclass(slots=True)
class _Texts:
    """Values preceded by their size: string and bytes."""

    content: Content
    wanted: AtomicType | None
    starts: Notes = field(default_factory=Notes)
    sizes: Notes = field(default_factory=Notes)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        starts, sizes = self.content.sized(at, ends)
        if self.wanted is not None:
            self.starts.add(slots, starts)
            self.sizes.add(slots, sizes)
        return starts + sizes

    def array(self, places: I64 | None, count: int) -> pa.Array:
        starts, present = self.starts.placed(places, count)
        sizes, _ = self.sizes.placed(places, count)
        target = pa.binary() if self.wanted is None else to_arrow_type(self.wanted)
        return with_nulls(_between(self.content, starts, starts + sizes).cast(target), present)


def _between(content: Content, starts: I64, ends: I64) -> pa.Array:
    """Return the bytes between offsets: every second value of an array that also has what lies between two values."""
    bounds = np.stack((starts, ends), axis=1).reshape(-1).astype(np.int32)
    if not len(starts):
        return pa.array([], pa.binary())
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content.raw)]
    alternating = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    return alternating.take(pa.array(np.arange(0, len(bounds), 2)))


@dataclass(slots=True)
class _Decimals:
    """Decimals: the size and the bytes of the unscaled value, the highest first."""

    content: Content
    wanted: AtomicType
    scale: int
    starts: Notes = field(default_factory=Notes)
    sizes: Notes = field(default_factory=Notes)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        starts, sizes = self.content.sized(at, ends)
        self.starts.add(slots, starts)
        self.sizes.add(slots, sizes)
        return starts + sizes

    def array(self, places: I64 | None, count: int) -> pa.Array:
        starts, present = self.starts.placed(places, count)
        sizes, _ = self.sizes.placed(places, count)
        if len(sizes) and sizes.max() > _DECIMAL_BYTES:
            raise UnusualError
        stored = pa.py_buffer(np.ascontiguousarray(self._words(starts, sizes)[:, ::-1]))
        values = pa.Array.from_buffers(pa.decimal128(38, self.scale), len(starts), [None, stored])
        values.validate(full=True)
        return with_nulls(values.cast(to_arrow_type(self.wanted)), present)

    def _words(self, starts: I64, sizes: I64) -> npt.NDArray[np.uint8]:
        """Return the unscaled values with the full number of bytes."""
        data, nth = self.content.bytes, np.arange(_DECIMAL_BYTES)
        negative = (data[starts] >= 0x80) & (sizes > 0)
        found = data[np.maximum((starts + sizes - _DECIMAL_BYTES)[:, None] + nth, 0)]
        sign = np.where(negative, np.uint8(0xFF), np.uint8(0))
        return np.where(nth >= (_DECIMAL_BYTES - sizes)[:, None], found, sign[:, None])

"""The atomic types of Avro: how their values are walked over and converted to Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.avro.schema import INTEGERS
from paimon_spark.format.avro.walk import Content, Node, Offsets, UnusualError
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
        return _Fixed(content, wanted, _FIXED[name])
    if name == "fixed":
        return _Fixed(content, None, np.dtype((np.void, int(schema["size"]))))
    if name in ("int", "long", "enum"):
        return _Numbers(content, wanted)
    if name in ("string", "bytes"):
        return _Texts(content, wanted)
    raise UnusualError


@dataclass(slots=True)
class _Leaf(ABC):
    """Values of an atomic type; their offsets are noted if they are wanted."""

    content: Content
    wanted: AtomicType | None
    offsets: Offsets = field(default_factory=Offsets, init=False)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        if self.wanted is not None:
            self.offsets.add(slots, at)
        return self._end(at, ends)

    def array(self, places: I64 | None, count: int) -> pa.Array:
        if self.wanted is None:
            raise TypeError("the values are not read")
        at, present = self.offsets.placed(places, count)
        return with_nulls(self._values(at, self.wanted), present)

    @abstractmethod
    def _end(self, at: I64, ends: I64) -> I64:
        """Return where the values at some offsets end."""

    @abstractmethod
    def _values(self, at: I64, wanted: AtomicType) -> pa.Array:
        """Return the values at some offsets."""


@dataclass(slots=True)
class _Fixed(_Leaf):
    """Values of a fixed size."""

    dtype: np.dtype[Any]

    def _end(self, at: I64, ends: I64) -> I64:
        del ends
        return at + self.dtype.itemsize

    def _values(self, at: I64, wanted: AtomicType) -> pa.Array:
        values = self.content.bytes[at[:, None] + np.arange(self.dtype.itemsize)].view(self.dtype).reshape(-1)
        if wanted.root is TypeRoot.BOOLEAN:
            if (values > 1).any():
                raise ValueError("a boolean is neither 0 nor 1")
            values = values.astype(np.bool_)
        return pa.array(values)


@dataclass(slots=True)
class _Numbers(_Leaf):
    """Values of a variable number of bytes: int, long, and the indexes of enums."""

    def _end(self, at: I64, ends: I64) -> I64:
        del ends
        return at + self.content.spans[at]

    def _values(self, at: I64, wanted: AtomicType) -> pa.Array:
        values = pa.array(self.content.numbers(at))
        return values.cast(INTEGERS.get(wanted.root, values.type)).cast(to_arrow_type(wanted))


@dataclass(slots=True)
class _Texts(_Leaf):
    """Values preceded by their size: string and bytes."""

    def _end(self, at: I64, ends: I64) -> I64:
        starts, sizes = self.content.sized(at)
        if (sizes.view(np.uint64) > (ends - starts).view(np.uint64)).any():  # also negative ones
            raise ValueError("a text extends beyond its block")
        return starts + sizes

    def _values(self, at: I64, wanted: AtomicType) -> pa.Array:
        starts, sizes = self.content.sized(at)
        return _between(self.content, starts, starts + sizes).cast(to_arrow_type(wanted))


def _between(content: Content, starts: I64, ends: I64) -> pa.Array:
    """Return the bytes between offsets: every second value of an array that also has what lies between two values."""
    if not len(starts):
        return pa.array([], pa.binary())
    bounds = np.stack((starts, ends), axis=1).reshape(-1).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content.raw)]
    alternating = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    return alternating.take(pa.array(np.arange(0, len(bounds), 2)))


@dataclass(slots=True)
class _Decimals(_Texts):
    """Decimals: the size and the bytes of the unscaled value, the highest first."""

    scale: int

    def _values(self, at: I64, wanted: AtomicType) -> pa.Array:
        starts, sizes = self.content.sized(at)
        if len(sizes) and sizes.max() > _DECIMAL_BYTES:
            raise UnusualError
        stored = pa.py_buffer(np.ascontiguousarray(self._words(starts, sizes)[:, ::-1]))
        values = pa.Array.from_buffers(pa.decimal128(38, self.scale), len(starts), [None, stored])
        values.validate(full=True)
        return values.cast(to_arrow_type(wanted))

    def _words(self, starts: I64, sizes: I64) -> npt.NDArray[np.uint8]:
        """Return the unscaled values with the full number of bytes."""
        data, nth = self.content.bytes, np.arange(_DECIMAL_BYTES)
        negative = (data[starts] >= 0x80) & (sizes > 0)
        found = data[np.maximum((starts + sizes - _DECIMAL_BYTES)[:, None] + nth, 0)]
        sign = np.where(negative, np.uint8(0xFF), np.uint8(0))
        return np.where(nth >= (_DECIMAL_BYTES - sizes)[:, None], found, sign[:, None])

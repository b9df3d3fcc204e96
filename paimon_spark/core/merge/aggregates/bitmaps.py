"""Roaring bitmaps: unions of values that a library serialized, which sketches share."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.key_groups import Merged, gather, nullable_positions
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.format.arrays import Mask
from paimon_spark.format.roaring64_art import read_art, write_art
from paimon_spark.spec.types import DataField

Union = Callable[[Sequence[bytes]], bytes]
"""Return the union of several serialized values, which are in merge order."""

_MALFORMED = (ValueError, LookupError, RuntimeError, struct.error)
"""The exceptions of the libraries for malformed values."""


class SerializedUnion:
    """Merges serialized values. Nulls are ignored, and a single value stays unchanged byte by byte.

    Args:
        field: the column.
        what: the kind of its values, for error messages.
        union: returns the union of values of one key; raises one of `_MALFORMED` if a value is malformed.
    """

    def __init__(self, field: DataField, what: str, union: Union) -> None:
        self._name = field.name
        self._what = what
        self._union = union

    def __call__(self, inputs: Inputs) -> Merged:
        """Return the union of each key; null if all inputs are null.

        Raises:
            CorruptTableError: a value is malformed.
        """
        some, keys = inputs.where(inputs.valid)
        out = np.full(len(inputs.starts), -1, dtype=np.int64)
        several = some.counts > 1
        if not several.any():
            out[keys] = some.positions[some.starts]
            return out
        unions = pa.array(self._unions(some, several), inputs.column.type)
        if len(unions) == len(out):
            return unions
        alone = inputs.column.take(pa.array(some.positions[some.starts[~several]]))
        out[keys[~several]] = np.arange(len(alone))
        out[keys[several]] = np.arange(len(alone), len(alone) + len(unions))
        return gather(pa.chunked_array([alone, unions]), nullable_positions(out))

    def _unions(self, some: Inputs, several: Mask) -> list[bytes]:
        """Return the unions of the keys with several values."""
        values = some.column.take(pa.array(some.positions[several[some.keys]])).to_pylist()
        ends = np.cumsum(some.counts[several]).tolist()
        try:
            return [self._union(values[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        except _MALFORMED as e:
            raise CorruptTableError(
                f"The column '{self._name}' has a value that is not a sound {self._what}: {e}.",
                hint="Correct the rows of the key, or restore the data files from a backup.",
                kind=ErrorKind.CORRUPT_DATA_FILE,
            ) from e


def _union_32(values: Sequence[bytes]) -> bytes:
    out = BitMap.deserialize(values[0])
    for value in values[1:]:
        out |= BitMap.deserialize(value)
    out.run_optimize()
    serialized: bytes = out.serialize()
    return serialized


def _union_64(values: Sequence[bytes]) -> bytes:
    out = read_art(values[0])
    for value in values[1:]:
        out.add_all(read_art(value))
    return write_art(out)


rbm32_union = partial(SerializedUnion, what="32-bit roaring bitmap", union=_union_32)
"""Return the function that merges 32-bit bitmaps of a column."""
rbm64_union = partial(SerializedUnion, what="64-bit roaring bitmap", union=_union_64)
"""Return the function that merges 64-bit bitmaps of a column."""

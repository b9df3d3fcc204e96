"""The rows of a range of row ids, sorted by the value of a column: what the writers of index files start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.roaring import Ints, bitmap_of, serialized
from paimon_spark.format.global_index.blocks import COMPRESSIONS
from paimon_spark.format.global_index.keys import KeyDomain
from paimon_spark.format.global_index.meta import FileKeys
from paimon_spark.format.varints import Bytes

_PREFIX = (1).to_bytes(8, "little") + (0).to_bytes(4, "little")
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """How index files are written: target size of blocks, compression of blocks, and its level."""

    block_size: int
    compression: str = COMPRESSIONS[0]
    level: int = 1


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows grouped by value, ascending.

    Attributes:
        ids: the rows that have a value, counted from the start of the range, ascending within each group.
        starts: where each group begins in `ids`.
        keys: the key of each group, one after the other.
        key_lengths: the length of each key.
        nulls: the rows without a value.
        rows: the number of rows.
    """

    ids: Ints
    starts: Ints
    keys: Bytes
    key_lengths: Ints
    nulls: BitMap
    rows: int

    @classmethod
    def of(cls, values: pa.Array, domain: KeyDomain) -> SortedRows:
        """Sort the values of consecutive rows."""
        valid = np.asarray(values.is_valid())
        codes, order = domain.sorted(values.drop_null())
        starts = domain.group_starts(codes)
        distinct: Any = codes[starts] if isinstance(codes, np.ndarray) else codes.take(pa.array(starts))
        keys, lengths = domain.serialize(distinct)
        nulls = bitmap_of(np.flatnonzero(~valid))
        return cls(np.flatnonzero(valid)[order], starts, keys, lengths, nulls, len(values))

    @property
    def counts(self) -> Ints:
        """Return the number of rows of each group."""
        return np.diff(self.starts, append=len(self.ids))

    @property
    def file_keys(self) -> FileKeys:
        """Return the metadata of an index file of these rows."""
        if not len(self.starts):
            return FileKeys(None, None, has_nulls=True)
        first, last = int(self.key_lengths[0]), len(self.keys) - int(self.key_lengths[-1])
        return FileKeys(self.keys[:first].tobytes(), self.keys[last:].tobytes(), bool(self.nulls))


def bitmap64(rows: BitMap) -> bytes:
    """Return a bitmap in the portable 64-bit format."""
    return _PREFIX + serialized(rows) if rows else bytes(_COUNT_BYTES)


def parse_bitmap64(data: bytes, rows: int) -> BitMap:
    """Return a bitmap of the portable 64-bit format, whose numbers are below `rows`.

    Raises:
        ValueError: it is malformed, or has other numbers.
    """
    count = int.from_bytes(data[:_COUNT_BYTES], "little")
    if len(data) < _COUNT_BYTES or count > 1 or (count and data[: len(_PREFIX)] != _PREFIX):
        raise ValueError("a bitmap is malformed, or has rows beyond the range of the index")
    if not count:
        return BitMap()
    found = BitMap.deserialize(data[len(_PREFIX) :])
    if found and found.max() >= rows:
        raise ValueError(f"it names the row {found.max()}, but its range has {rows} rows")
    return found


def cuts(sizes: Ints, limit: int) -> list[int]:
    """Return where the groups of consecutive items begin, and the end; a group ends with the item that exceeds `limit`.

    Args:
        sizes: size of each item.
        limit: size of a group.
    """
    ends = np.cumsum(sizes)
    out = [0]
    while out[-1] < len(sizes):
        before = int(ends[out[-1] - 1]) if out[-1] else 0
        out.append(min(int(np.searchsorted(ends, before + limit, side="right")) + 1, len(sizes)))
    return out

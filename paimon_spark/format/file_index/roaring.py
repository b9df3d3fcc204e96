"""Bitmaps of row positions: many small ones written at once, single ones read with checks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

Ints = npt.NDArray[Any]
MOST_ROWS = 1 << 32
"""Size of the range of bitmap positions; no data file has that many rows."""

_FEW = 32
"""Groups of up to this number of rows are written by array operations, larger ones by the library."""
_NO_RUNS = 12346
_HEADER = 4
"""16-bit words before the containers' descriptions."""


def bitmap_of(positions: Ints) -> BitMap:
    """Return the bitmap of positions."""
    return BitMap(array("I", positions.astype(np.uint32).tobytes()))


def serialized(bitmap: BitMap) -> bytes:
    """Return a bitmap in the portable format, as small as possible; changes its layout."""
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def parse_bitmap(data: bytes, rows: int) -> BitMap:
    """Return the bitmap that `data` begins with.

    Raises:
        ValueError: there is none, or it has positions beyond the number of rows.
    """
    found = BitMap.deserialize(data)
    if found and found.max() >= rows:
        raise ValueError(f"it names the row {found.max()}, but the file has {rows} rows")
    return found


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows grouped by the code of their value.

    Attributes:
        positions: the positions of all rows that have a value, ascending within each group.
        starts: where each group begins in `positions`.
    """

    positions: Ints
    starts: Ints

    @classmethod
    def of(cls, positions: Ints, codes: Ints, count: int) -> Groups:
        """Group rows by code; each code from 0 to `count` - 1 has a row."""
        order = np.argsort(codes, kind="stable")
        return cls(positions[order], np.searchsorted(codes[order], np.arange(count)))

    @property
    def sizes(self) -> Ints:
        """Return the number of rows of each group."""
        return np.diff(self.starts, append=len(self.positions))

    def serialize(self, wanted: Ints) -> tuple[bytes, Ints, Ints]:
        """Return the bitmaps of the groups `wanted` one after the other, and the start and length of each."""
        sizes = self.sizes[wanted]
        small = sizes <= _FEW
        large = {int(g): serialized(bitmap_of(self._rows(int(g)))) for g in wanted[~small]}
        lengths = np.zeros(len(wanted), np.int64)
        lengths[~small] = [len(b) for b in large.values()]
        words, small_lengths = self._small(wanted[small])
        lengths[small] = small_lengths
        starts = np.cumsum(lengths) - lengths
        out = np.zeros(int(lengths.sum()), np.uint8)
        out[spread(starts[small], small_lengths)] = words.view(np.uint8)
        for start, body in zip(starts[~small].tolist(), large.values(), strict=True):
            out[start : start + len(body)] = np.frombuffer(body, np.uint8)
        return out.tobytes(), starts, lengths

    def _rows(self, group: int) -> Ints:
        start = int(self.starts[group])
        return self.positions[start : start + int(self.sizes[group])]

    def _small(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the bitmaps of small groups as 16-bit words, and the length of each in bytes.

        Each is a cookie, the number of containers, key and size of each container, the offset of each, then the low
        halves of all positions.
        """
        sizes = self.sizes[groups]
        rows = spread(self.starts[groups], sizes)
        of_row = np.repeat(np.arange(len(groups)), sizes)
        high, low = self.positions[rows] >> 16, (self.positions[rows] & 0xFFFF).astype("<u2")
        new = np.ones(len(rows), bool)
        new[1:] = (of_row[1:] != of_row[:-1]) | (high[1:] != high[:-1])
        firsts = np.flatnonzero(new)
        members = np.diff(firsts, append=len(rows))
        of_container = of_row[firsts]
        containers = np.bincount(of_container, minlength=len(groups))
        words = _HEADER + 4 * containers + sizes
        begins = np.cumsum(words) - words
        out = np.zeros(int(words.sum()), "<u2")
        out[begins], out[begins + 2] = _NO_RUNS, containers
        rank = np.arange(len(firsts)) - np.repeat(np.cumsum(containers) - containers, containers)
        described = begins[of_container] + _HEADER + 2 * rank
        out[described], out[described + 1] = high[firsts], members - 1
        before = firsts - np.repeat(np.cumsum(sizes) - sizes, containers)
        offsets = 2 * (_HEADER + 4 * containers[of_container] + before)
        located = described + 2 * containers[of_container]
        out[located], out[located + 1] = offsets & 0xFFFF, offsets >> 16
        out[spread(begins + _HEADER + 4 * containers, sizes)] = low
        return out, 2 * words


def spread(starts: Ints, lengths: Ints) -> Ints:
    """Return the numbers of all ranges: from each start, as many as its length."""
    total = int(lengths.sum())
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)

"""Bit slices: numbers of rows as one bitmap for each bit, compared by O'Neil's method for bit-sliced indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from paimon_spark.format.file_index.roaring import Ints, bitmap_of


def slice_rows(positions: Ints, numbers: Ints, bits: int) -> list[BitMap]:
    """Return for each bit, the lowest first, the rows whose number has it."""
    return [bitmap_of(positions[(numbers >> bit & 1).astype(bool)]) for bit in range(bits)]


@dataclass(frozen=True, slots=True)
class BitSlices:
    """Numbers of rows.

    Attributes:
        valid: the rows that have a number.
        slices: the rows whose number has each bit.
    """

    valid: BitMap
    slices: Sequence[BitMap]

    def split(self, number: int) -> tuple[BitMap, BitMap, BitMap]:
        """Return the rows whose number is less than, equal to and greater than `number`, which is not negative."""
        less, equal, greater = BitMap(), self.valid.copy(), BitMap()
        if number >> len(self.slices):
            return equal, BitMap(), greater
        for bit in reversed(range(len(self.slices))):
            if number >> bit & 1:
                less |= equal - self.slices[bit]
                equal &= self.slices[bit]
            else:
                greater |= equal & self.slices[bit]
                equal -= self.slices[bit]
        return less, equal, greater


def bits_of(number: int) -> int:
    """Return the number of bits of a number."""
    return int(number).bit_length()


def max_of(numbers: Ints) -> int:
    """Return the greatest of some numbers, or 0."""
    return int(np.max(numbers, initial=0))

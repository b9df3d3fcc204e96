"""A walk over the records of many blocks at once, which notes where the values of each column begin.

Offsets are those of the joined blocks. A slot identifies the row, array value or map entry that a value belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.varints import unzigzag

_PAD = bytes(16)
_MOST_BYTES = 10
_FEW_VALUES = 32
_MANY_STEPS = 20_000


class UnusualError(Exception):
    """The records are better decoded one by one, or have types that are."""


class Content:
    """The bytes of some blocks, with the size of the number at each offset, if there is one."""

    def __init__(self) -> None:
        self.fill(())
        self._steps = self._values = 0

    def fill(self, blocks: Sequence[bytes]) -> None:
        """Take the bytes of the blocks."""
        self.raw = b"".join([*blocks, _PAD])
        self.bytes = np.frombuffer(self.raw, np.uint8)
        self.spans = _spans(self.bytes)

    def numbers(self, at: I64) -> I64:
        """Return the int or long values at some offsets.

        Raises:
            ValueError: one takes more than ten bytes.
        """
        first = self.bytes[at]
        if not (first & 0x81).any():
            return (first >> 1).astype(np.int64)
        value = first.astype(np.uint64) & np.uint64(0x7F)
        spans = self.spans[at]
        for n in range(1, int(spans.max())):
            rows = np.flatnonzero(spans > n)
            byte = self.bytes[at[rows] + n]
            if n >= _MOST_BYTES - 1 and (byte > 1).any():
                raise ValueError("a number has too many bytes")
            value[rows] |= (byte.astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * n)
        return unzigzag(value)

    def sized(self, at: I64) -> tuple[I64, I64]:
        """Return where the bytes of some values begin, after their size, and how many there are."""
        return at + self.spans[at], self.numbers(at)

    def step(self, values: int) -> None:
        """Count a step of the walk.

        Raises:
            UnusualError: the walk takes so many steps for so few values that it does not pay.
        """
        self._steps += 1
        self._values += values
        if self._steps > _MANY_STEPS and self._values < self._steps * _FEW_VALUES:
            raise UnusualError


def _spans(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    more = data >= 0x80
    spans = np.ones(len(data), np.uint8)
    run = more.copy()
    for n in range(1, _MOST_BYTES + 1):
        if not run.any():
            break
        spans += run
        run[:-n] &= more[n:]
    return spans


class Node(Protocol):
    """A type of the schema, and its values."""

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        """Note one value in each of several blocks.

        Args:
            at: where the values begin.
            slots: what they belong to.
            ends: the ends of the blocks.

        Returns:
            where the values end.
        """
        ...

    def array(self, places: I64 | None, count: int) -> pa.Array:
        """Return all values.

        Args:
            places: the index of each slot in the result; None if the slots are the indexes.
            count: the length of the result; where no value was noted, it has null.
        """
        ...


class Slots:
    """The slots of some values, in the order of a walk."""

    def __init__(self) -> None:
        self._parts: list[I64] = []

    def add(self, slots: I64) -> None:
        """Note slots."""
        self._parts.append(slots)

    def placed(self, places: I64 | None) -> I64:
        """Return the places of the slots, which are the slots themselves without `places`."""
        slots = joined(self._parts)
        return slots if places is None else places[slots]

    def present(self, places: I64 | None, count: int) -> Mask:
        """Return which of all places there are values for."""
        present = np.zeros(count, np.bool_)
        present[self.placed(places)] = True
        return present


class Offsets:
    """The offsets of values, each noted for a slot."""

    def __init__(self) -> None:
        self._slots = Slots()
        self._parts: list[I64] = []

    def add(self, slots: I64, at: I64) -> None:
        """Note offsets."""
        self._slots.add(slots)
        self._parts.append(at)

    def placed(self, places: I64 | None, count: int) -> tuple[I64, Mask]:
        """Return the offsets in the order of their places, and at which of all places there is one."""
        found = np.full(count, -1, np.int64)
        found[self._slots.placed(places)] = joined(self._parts)
        present = found >= 0
        return found[present], present


def joined(parts: Sequence[I64]) -> I64:
    """Return the numbers of all parts."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)

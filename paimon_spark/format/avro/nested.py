"""The composed types of Avro: unions with null, records, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.avro.walk import Content, Node, Slots


@dataclass(slots=True)
class Nullable:
    """A union of null and one type; `branch` is the byte before a value."""

    content: Content
    branch: int
    child: Node
    _met: int = field(default=0, init=False)
    """The bytes of all branches in the blocks, combined by OR."""

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        """Note the values that are not null."""
        branches = self.content.bytes[at]
        self._met |= int(np.bitwise_or.reduce(branches))
        present = branches == self.branch
        at = at + 1
        if present.all():
            return self.child.walk(at, slots, ends)
        some = np.flatnonzero(present)
        if len(some):
            at[some] = self.child.walk(at[some], slots[some], ends[some])
        return at

    def array(self, places: I64 | None, count: int) -> pa.Array:
        """Return all values."""
        return self.child.array(places, count)

    def check(self) -> None:
        """Raise ValueError if a value is of a branch that the union does not have."""
        if self._met & ~2:
            raise ValueError("a union has an unknown branch")


@dataclass(slots=True)
class Struct:
    """A record with its members in file order.

    Args:
        members: all members of the file's record.
        chosen: for each field of the result its member, None for a field that the file does not have.
        target: the type of the result, None if the record is not read.
    """

    members: Sequence[Node]
    chosen: Sequence[Node | None]
    target: pa.StructType | None
    slots: Slots = field(default_factory=Slots)

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        """Note the members of one record in each block."""
        if self.target is not None:
            self.slots.add(slots)
        for member in self.members:
            at = member.walk(at, slots, ends)
        return at

    def array(self, places: I64 | None, count: int) -> pa.Array:
        """Return all records."""
        if self.target is None:
            raise TypeError("the record is not read")
        present = self.slots.present(places, count)
        return pa.StructArray.from_arrays(
            self.arrays(places, count, self.target), fields=list(self.target), mask=_absent(present)
        )

    def arrays(self, places: I64 | None, count: int, target: Sequence[pa.Field]) -> list[pa.Array]:
        """Return the values of each field of the result."""
        return [
            pa.nulls(count, f.type) if node is None else node.array(places, count)
            for node, f in zip(self.chosen, target, strict=True)
        ]


@dataclass(slots=True)
class List:
    """An array, or a map as an array of its entries; each has values in parts, which end with an empty part."""

    content: Content
    child: Node
    target: pa.DataType | None
    slots: Slots = field(default_factory=Slots)
    parents: Slots = field(default_factory=Slots)
    """For each value in the order of the walk, which is its slot, the slot that its array belongs to."""
    values: int = 0

    def walk(self, at: I64, slots: I64, ends: I64) -> I64:
        """Note the values of one array in each block."""
        if self.target is not None:
            self.slots.add(slots)
        at, rows = at.copy(), np.arange(len(at))
        while len(rows):
            begin = at[rows]
            counts, at[rows] = self.content.numbers(begin), begin + self.content.spans[begin]
            sized = rows[counts < 0]
            at[sized] += self.content.spans[at[sized]]
            rows, counts = rows[counts != 0], np.abs(counts[counts != 0])
            self._part(at, slots, ends, rows, counts)
        return at

    def _part(self, at: I64, slots: I64, ends: I64, rows: I64, counts: I64) -> None:
        """Walk over the next values of the arrays in some rows."""
        while len(rows):
            self.content.step(len(rows))
            if self.target is not None:
                self.parents.add(slots[rows])
            own = np.arange(self.values, self.values + len(rows))
            self.values += len(rows)
            end = self.child.walk(at[rows], own, ends[rows])
            if (end > ends[rows]).any():
                raise ValueError("an array extends beyond its block")
            at[rows] = end
            counts = counts - 1
            rows, counts = rows[counts > 0], counts[counts > 0]

    def array(self, places: I64 | None, count: int) -> pa.Array:
        """Return all arrays or maps."""
        if self.target is None:
            raise TypeError("the array is not read")
        present, parents = self.slots.present(places, count), self.parents.placed(places)
        order = np.argsort(parents, kind="stable")
        own = np.empty(len(order), np.int64)
        own[order] = np.arange(len(order))
        offsets = np.concatenate(([0], np.cumsum(np.bincount(parents, minlength=count))))
        ends, mask = pa.array(offsets, pa.int32()), _absent(present)
        if pa.types.is_map(self.target):
            entries = self._entries()
            fields = (self.target.key_field, self.target.item_field)
            keys, items = entries.arrays(own, len(order), fields)
            return pa.MapArray.from_arrays(ends, keys, items, type=self.target, mask=mask)
        values = self.child.array(own, len(order))
        return pa.ListArray.from_arrays(ends, values, type=self.target, mask=mask)

    def _entries(self) -> Struct:
        if not isinstance(self.child, Struct):
            raise TypeError("the entries of the map are no records")
        return self.child


def _absent(present: Mask) -> pa.Array | None:
    return None if present.all() else pa.array(~present)

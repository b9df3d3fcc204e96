"""64-bit bitmaps in the radix tree layout: random values, the layout itself, and malformed bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.format.arrays import U64
from paimon_spark.format.roaring64_art import ArtBitmap, read_art, write_art
from tests.art_bitmaps import art_bitmap
from tests.peers.aggregate_bytes import recorded


def of(*values: int) -> U64:
    return np.array(values, dtype=np.uint64)


@st.composite
def values(draw: st.DrawFn) -> U64:
    """Draw values that are dense, in neighbouring containers, or anywhere."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.sampled_from([0, 1 << 16, 1 << 40, (1 << 63) - 5]) | st.integers(0, (1 << 64) - (1 << 26)))
        step = draw(st.sampled_from([1, 2, 9, 1 << 16, 1 << 17]))
        count = draw(st.integers(1, 300) if step > 9 else st.integers(1, 9000))
        parts.append(np.uint64(start) + np.arange(count, dtype=np.uint64) * np.uint64(step))
    return np.concatenate(parts) if parts else of()


@settings(max_examples=150, deadline=None)
@given(values())
def test_values_are_read_as_they_were_written(drawn: U64) -> None:
    data = write_art(art_bitmap(drawn))
    assert np.array_equal(read_art(data).values(), np.unique(drawn))
    assert write_art(read_art(data)) == data


@settings(max_examples=150, deadline=None)
@given(st.lists(values(), min_size=1, max_size=4))
def test_a_union_has_all_values(drawn: list[U64]) -> None:
    union = ArtBitmap()
    for part in drawn:
        union.add_all(read_art(write_art(art_bitmap(part))))
    assert np.array_equal(read_art(write_art(union)).values(), np.unique(np.concatenate(drawn)))


@pytest.mark.parametrize("name", [name for name in recorded() if name.startswith("rbm64")])
def test_bytes_of_java_are_written_again(name: str) -> None:
    case = recorded()[name]
    assert write_art(read_art(case.merged)) == case.merged
    members = np.concatenate([read_art(i).values() for i in case.inputs])
    assert np.array_equal(read_art(case.merged).values(), np.unique(members))


def test_a_container_of_an_unusual_kind_is_read() -> None:
    ordered = np.arange(0, 10_000, 2, dtype="<u2")
    dense = np.packbits(np.isin(np.arange(1 << 16), ordered[:3]), bitorder="little").tobytes()
    for kind, members, payload in ((2, ordered, ordered.tobytes()), (1, ordered[:3], dense)):
        head = struct.pack("<bqBhB6sqibi", 1, 1, 4, 0, 0, bytes(6), 0, 1, -2, 1)
        slot = struct.pack("<BBi", 1, kind, len(members)) + payload
        found = read_art(head + slot + struct.pack("<qii", 1, 0, 0))
        assert found.values().tolist() == members.tolist()
        assert read_art(write_art(found)).values().tolist() == members.tolist()


def test_malformed_bytes_are_an_error() -> None:
    sound = write_art(art_bitmap(of(1, 2, 70_000, 1 << 50)))
    for end in range(len(sound)):
        with pytest.raises(ValueError, match="it is cut off"):
            read_art(sound[:end])
    for at, byte in ((0, 7), (9, 5), (10, 0), (10, 9), (sound.index(b"\xfe") - 4, 2), (sound.index(b"\xfe") + 5, 3)):
        damaged = bytearray(sound)
        damaged[at] = byte
        with pytest.raises(ValueError, match="it"):
            read_art(bytes(damaged))


def test_containers_are_checked_when_they_are_used() -> None:
    damaged = write_art(art_bitmap(of(1, 2, 3))).replace(b"\1\0\2\0\3\0", b"\1\0\3\0\2\0")
    with pytest.raises(ValueError, match="increasing"):
        write_art(read_art(damaged))

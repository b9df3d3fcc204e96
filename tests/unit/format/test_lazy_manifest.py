"""Packed manifests have the same entries as manifests that are read as a whole."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError
from paimon_spark.format.manifest import codec as m
from paimon_spark.format.manifest import lazy_manifest as p
from paimon_spark.format.manifest.column_decoder import decode_columns
from paimon_spark.format.manifest.entry_decoder import decode_entries
from paimon_spark.spec.manifest import EMPTY_STATS, ManifestEntry
from tests.unit.format.test_entry_decoder import SAMPLES, block_of
from tests.unit.format.test_manifest_codec import ENTRIES

NAMES = st.text(string.ascii_letters + "-._", min_size=3, max_size=150).filter(lambda n: n.strip("."))


def opened(entries: list[ManifestEntry]) -> p.Manifest:
    """Return what opening a manifest of some entries gives, however few its blocks are."""
    return m.open_manifest(m.write_manifest(entries), fewest_blocks=1)


def named(entry: ManifestEntry, name: str) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, file_name=name))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(named, SAMPLES, NAMES), min_size=1, max_size=9), st.integers(1, 40), st.data())
def test_a_packed_manifest_says_what_was_written(entries: list[ManifestEntry], times: int, data: st.DataObject) -> None:
    usual = [
        replace(e, file=replace(e.file, min_sequence_number=abs(e.file.min_sequence_number) >> 2)) for e in entries
    ]
    for e in usual:
        sizes = (e.file.file_size, e.file.row_count, e.file.max_sequence_number, e.file.schema_id)
        if max(sizes) >= 1 << 61:
            return
    whole = usual * times
    found = opened(whole)
    assert list(found.entries()) == whole
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(whole) - 1)))), np.int64)
    chosen = [whole[r] for r in rows]
    assert list(found.entries(rows)) == chosen
    assert list(found.names(rows)) == [(r, whole[r].file.file_name) for r in rows]
    places = found.entry_columns()
    assert [places.partitions[i] for i in places.partition] == [e.partition for e in whole]
    for column, of in (
        (places.kind, [e.kind for e in whole]),
        (places.bucket, [e.bucket for e in whole]),
        (places.total_buckets, [e.total_buckets for e in whole]),
        (places.level, [e.file.level for e in whole]),
        (places.size, [e.file.file_size for e in whole]),
        (places.rows, [e.file.row_count for e in whole]),
    ):
        assert column.tolist() == of
    for one in (found, p.Manifest(whole)):
        packed = list(one.packed_files(rows, statistics=True))
        assert [p.unpack_file(b, statistics=True) for b in packed] == [e.file for e in chosen]
        lean = [p.unpack_file(b, statistics=False) for b in one.packed_files(rows, statistics=False)]
        assert lean == [replace(e.file, key_stats=EMPTY_STATS, value_stats=EMPTY_STATS) for e in chosen]


def usual_entries(count: int) -> list[ManifestEntry]:
    """Return the entries of a table as it is written today, with statistics of small and of large counts."""
    stats = [replace(ENTRIES[0].file.value_stats, null_counts=c) for c in ((0, 1), (70, None), (), (1 << 40, 5, 3))]
    return [
        replace(ENTRIES[0], file=replace(ENTRIES[0].file, file_name=f"data-{i}.parquet", value_stats=stats[i % 4]))
        for i in range(count)
    ]


def test_usual_manifests_are_packed_and_take_little_memory() -> None:
    entries = usual_entries(2_000)
    found = opened(entries)
    assert isinstance(found, p.LazyManifest)
    assert list(found.entries()) == entries
    assert found.nbytes * 5 < p.Manifest(entries).nbytes


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_is_read_at_once_is_what_is_read_one_by_one(data: st.DataObject) -> None:
    blocks = [
        (n, bytearray(block_of(m.write_manifest(usual_entries(n))))) for n in data.draw(st.permutations([3, 1, 4]))
    ]
    for _ in range(data.draw(st.integers(1, 3))):
        _, block = data.draw(st.sampled_from(blocks))
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    _check_agreement([(n, bytes(b)) for n, b in blocks])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), min_size=1, max_size=4))
def test_noise_is_never_read(blocks: list[tuple[int, bytes]]) -> None:
    _check_agreement(blocks)


def _check_agreement(blocks: Sequence[tuple[int, bytes]]) -> None:
    partitions: dict[bytes, int] = {}
    columns = decode_columns(blocks, partitions)
    if columns is None:
        return
    one_by_one = decode_entries(blocks)
    assert one_by_one is not None
    names = list(partitions)
    assert [names[i] for i in columns.partition] == [e.partition for e in one_by_one]
    assert columns.kind.tolist() == [e.kind for e in one_by_one]
    assert columns.bucket.tolist() == [e.bucket for e in one_by_one]
    assert columns.rows.tolist() == [e.file.row_count for e in one_by_one]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    entries = [*usual_entries(100), named(ENTRIES[0], name)]
    with pytest.raises(CorruptTableError, match="is not a file name"):
        opened(entries)

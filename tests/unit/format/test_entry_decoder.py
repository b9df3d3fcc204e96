"""Both readers of manifests agree on all entries that the fast one reads."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.format.avro.container import AvroContainer
from paimon_spark.format.manifest import codec as m
from paimon_spark.format.manifest.entry_decoder import decode_entries, has_known_layout
from paimon_spark.format.manifest.generate_file_decoder import TARGET, source
from paimon_spark.format.manifest.layout import ENTRY_FIELDS, FILE_FIELDS, record, top_record
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, ManifestEntry, SimpleStats
from tests.unit.format.test_manifest_codec import ENTRIES

NUMBERS = st.integers(0, 100) | st.integers(0, 2**63 - 1)
KEYS = st.just(EMPTY_ROW) | st.binary(max_size=200)
COUNTS = st.lists(st.none() | st.integers(0, 3) | NUMBERS, max_size=80).map(tuple)
STATS = st.just(EMPTY_STATS) | st.builds(SimpleStats, KEYS, KEYS, COUNTS)
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=80)
TEXTS = st.lists(NAMES, max_size=70).map(tuple)
FILES = st.builds(
    DataFileMeta,
    file_name=NAMES,
    file_size=NUMBERS,
    row_count=NUMBERS,
    min_key=KEYS,
    max_key=KEYS,
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=st.integers(-(2**63), 2**63 - 1),
    max_sequence_number=NUMBERS,
    schema_id=NUMBERS,
    level=st.integers(0, 2**31 - 1),
    extra_files=TEXTS,
    creation_time=st.none() | st.integers(-62_135_596_800_000, 253_402_300_799_999),
    delete_row_count=st.none() | NUMBERS,
    embedded_index=st.none() | st.binary(max_size=300),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=st.none() | TEXTS,
    external_path=st.none() | NAMES,
    first_row_id=st.none() | NUMBERS,
    write_cols=st.none() | TEXTS,
)
SAMPLES = st.builds(
    ManifestEntry, st.sampled_from(FileKind), KEYS, st.integers(-2, 2**31 - 1), st.integers(-1, 2**31 - 1), FILES
)


def container(data: bytes) -> AvroContainer:
    return AvroContainer(data, max_block=1 << 24)


def quick(data: bytes) -> list[ManifestEntry] | None:
    return decode_entries(container(data).unpacked())


def unusual(file: AvroContainer) -> bytes:
    """Return a file with the same records and a column more, which takes no bytes: the quick reader leaves it alone."""
    extra = file.schema | {"fields": [*file.schema["fields"], {"name": "_NOTHING", "type": "null"}]}
    assert not has_known_layout(extra)
    return file.stream(extra).read(1 << 24)


def block_of(data: bytes) -> bytes:
    ((_, block),) = container(data).unpacked()
    return block


def as_file(count: int, block: bytes) -> bytes:
    """Return a container of one block without compression."""

    def number(value: int) -> bytes:
        out = b""
        value <<= 1
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    schema = json.dumps(top_record(ENTRY_FIELDS)).encode()
    meta = b"".join(number(len(b)) + b for b in (b"avro.schema", schema, b"avro.codec", b"null"))
    mark = bytes(16)
    return b"Obj\1" + number(2) + meta + b"\0" + mark + number(count) + number(len(block)) + block + mark


@settings(deadline=None, max_examples=50)
@given(st.lists(SAMPLES, min_size=1, max_size=5))
def test_every_entry_is_read(entries: list[ManifestEntry]) -> None:
    data = m.write_manifest(entries)
    assert quick(data) == entries
    assert m.read_manifest(unusual(container(data))) == entries


def test_what_is_shared_is_one_object() -> None:
    stats = SimpleStats(b"a", b"b", (1, 0, 63))
    sparse = ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, -1, ENTRIES[0].file)
    entries = [ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, f) for f in [_with(ENTRIES[1].file, stats)] * 2]
    first, second, third = quick(m.write_manifest([*entries, sparse])) or []
    assert first.file.value_stats == second.file.value_stats == stats
    assert first.file.value_stats.null_counts is second.file.value_stats.null_counts
    assert third.file.key_stats is EMPTY_STATS


def _with(file: DataFileMeta, stats: SimpleStats) -> DataFileMeta:
    return replace(file, value_stats=stats)


def verdict(data: bytes) -> list[ManifestEntry] | str:
    try:
        return m.read_manifest(data)
    except PaimonError as e:
        return str(e.kind)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_changed_are_judged_alike(seed: int) -> None:
    draw = random.Random(seed)
    whole = block_of(m.write_manifest([*ENTRIES, *ENTRIES]))
    read = 0
    for _ in range(60):
        block = bytearray(whole)
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            at = draw.randrange(len(block))
            kind = draw.randrange(4)
            if kind == 0:
                block[at] = draw.choice((0, 1, 2, 3, 4, 127, 128, 255, draw.randrange(256)))
            elif kind == 1:
                block[at] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del block[at : at + draw.randrange(1, 4)]
            else:
                block[at:at] = draw.randbytes(draw.randrange(1, 12))
        data = as_file(4, bytes(block))
        found = verdict(data)
        assert found == verdict(unusual(container(data)))
        read += isinstance(found, list)
    assert read > 0


def test_other_layouts_are_left_to_the_general_reader() -> None:
    fields = {k: v for k, v in FILE_FIELDS.items() if k != "_WRITE_COLS"}
    assert has_known_layout(top_record(ENTRY_FIELDS))
    assert not has_known_layout(top_record(ENTRY_FIELDS | {"_FILE": record("record__FILE", fields)}))
    assert not has_known_layout(top_record(dict(reversed(ENTRY_FIELDS.items()))))
    assert not has_known_layout(top_record(ENTRY_FIELDS | {"_BUCKET": "long"}))
    micros = ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    assert not has_known_layout(
        top_record(ENTRY_FIELDS | {"_FILE": record("f", FILE_FIELDS | {"_CREATION_TIME": micros})})
    )


def test_a_block_of_more_than_its_records_takes_the_generic_way() -> None:
    block = block_of(m.write_manifest(ENTRIES))
    assert decode_entries([(2, block)]) == ENTRIES
    assert decode_entries([(1, block)]) is None
    assert decode_entries([(3, block)]) is None
    with pytest.raises(CorruptTableError, match="cannot be read"):
        m.read_manifest(as_file(3, block))


def test_the_decoder_of_files_follows_the_layout() -> None:
    text = TARGET.read_text(encoding="utf-8")
    assert text == source(), "run: python -m paimon_spark.format.manifest.generate_file_decoder"

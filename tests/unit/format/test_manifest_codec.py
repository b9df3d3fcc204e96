"""The codec of the metadata files."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.avro.container import AvroContainer
from paimon_spark.format.manifest import codec as m
from paimon_spark.format.manifest.layout import ENTRY_FIELDS, FILE_FIELDS, LIST_FIELDS, record, top_record
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFileMeta,
    DeletionRange,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)

SPARSE = DataFileMeta(
    file_name="data-1-0.parquet",
    file_size=10,
    row_count=3,
    min_sequence_number=0,
    max_sequence_number=2,
    schema_id=0,
    level=0,
)
FULL = DataFileMeta(
    file_name="data-2-0.orc",
    file_size=2**40,
    row_count=7,
    min_key=b"\0\0\0\1aaaa",
    max_key=b"\0\0\0\1bbbb",
    key_stats=SimpleStats(b"x", b"y", (0, None)),
    value_stats=SimpleStats(b"p", b"q", (5,)),
    min_sequence_number=5,
    max_sequence_number=2**62,
    schema_id=4,
    level=5,
    extra_files=("a.index", "b"),
    creation_time=1700000000123,
    delete_row_count=2,
    embedded_index=b"\1\2",
    file_source=FileSource.COMPACT,
    value_stats_cols=("é",),
    external_path="/elsewhere/x",
    first_row_id=9,
    write_cols=(),
)
ENTRIES = [
    ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, -1, SPARSE),
    ManifestEntry(FileKind.DELETE, b"\0\0\0\1p", 3, 4, FULL),
]
META = ManifestFileMeta(
    file_name="manifest-1",
    file_size=99,
    num_added_files=1,
    num_deleted_files=1,
    partition_stats=EMPTY_STATS,
    schema_id=4,
    min_bucket=0,
    max_bucket=3,
)
INDEX = IndexManifestEntry(
    FileKind.ADD,
    EMPTY_ROW,
    1,
    IndexFileMeta(
        index_type="DELETION_VECTORS",
        file_name="index-1",
        file_size=33,
        row_count=1,
        deletion_ranges=(DeletionRange("data-1", 1, 24, 2), DeletionRange("data-2", 33, 9)),
        external_path=None,
        global_index=json.dumps(
            {"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 1, "_INDEX_META": {"b64": "AQI="}}
        ).encode(),
    ),
)


def header(data: bytes) -> Any:
    return fastavro.reader(io.BytesIO(data))


def test_everything_comes_back() -> None:
    assert m.read_manifest(m.write_manifest(ENTRIES)) == ENTRIES
    assert m.read_manifest_list(m.write_manifest_list([META, META])) == [META, META]
    assert m.read_manifest_list(m.write_manifest_list([])) == []
    (back,) = m.read_index_manifest(m.write_index_manifest([INDEX]))
    assert back.file.deletion_ranges == INDEX.file.deletion_ranges
    assert json.loads(back.file.global_index or b"") == json.loads(INDEX.file.global_index or b"") | {
        "_EXTRA_FIELD_IDS": None,
        "_SOURCE_META": None,
    }


@pytest.mark.parametrize("codec", ["zstandard", "snappy", "deflate", "bzip2", "xz", "null"])
def test_every_codec_of_manifests(codec: str) -> None:
    how, many = m.Compression(codec), ENTRIES * 500
    files = (m.write_manifest(many, how), m.write_manifest_list([META], how), m.write_index_manifest([INDEX], how))
    assert {AvroContainer(f, max_block=1 << 24).codec for f in files} == {codec}
    assert m.read_manifest(files[0]) == many
    assert len(files[0]) < len(m.write_manifest(many, m.Compression("null"))) or codec == "null"
    assert m.read_manifest_list(files[1]) == [META]
    assert m.read_index_manifest(files[2])[0].file.file_name == INDEX.file.file_name
    assert m.read_manifest(m.write_manifest([], how)) == []


def test_the_level_of_zstandard() -> None:
    many = ENTRIES * 500
    low, high = (m.write_manifest(many, m.Compression(level=level)) for level in (1, 19))
    assert len(high) < len(low)


def test_files_look_as_java_writes_them() -> None:
    reader = header(m.write_manifest(ENTRIES))
    assert reader.codec == "zstandard"
    assert reader.writer_schema["name"] == "org.apache.paimon.avro.generated.record"
    raw = next(iter(reader))
    assert raw["_VERSION"] == 2
    assert raw["_FILE"]["_KEY_STATS"]["_NULL_COUNTS"] == []
    text = reader.metadata["avro.schema"]
    assert '"null"]' not in text.replace(" ", "").replace('["null"', "")
    assert next(iter(header(m.write_index_manifest([INDEX]))))["_VERSION"] == 1


def _encode(fields: dict[str, Any], raw: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(top_record(fields)), raw, codec="zstandard")
    return out.getvalue()


def test_sources_of_files_as_text() -> None:
    file_fields = FILE_FIELDS | {"_FILE_SOURCE": ["null", "string"]}
    fields = ENTRY_FIELDS | {"_FILE": record("record__FILE", file_fields)}
    (raw,) = header(m.write_manifest(ENTRIES[:1]))
    for text, source in (("APPEND", FileSource.APPEND), ("COMPACT", FileSource.COMPACT), (None, None)):
        raw["_FILE"]["_FILE_SOURCE"] = text
        (entry,) = m.read_manifest(_encode(fields, [raw]))
        assert entry.file == replace(ENTRIES[0].file, file_source=source)
        assert m.read_manifest(m.write_manifest([entry])) == [entry]
    raw["_FILE"]["_FILE_SOURCE"] = "COPY"
    with pytest.raises(CorruptTableError, match="COPY"):
        m.read_manifest(_encode(fields, [raw]))


def test_columns_of_a_newer_writer_survive_a_rewrite() -> None:
    file_fields = FILE_FIELDS | {"_WRITE_COLS_SEQUENCES": ["null", {"type": "array", "items": "long"}]}
    raw = next(iter(header(m.write_manifest(ENTRIES[1:]))))
    raw["_FILE"]["_WRITE_COLS_SEQUENCES"] = [4, 5]
    raw["_NEW"] = {"a": "b"}
    new = {"type": "record", "name": "brand_new", "fields": [{"name": "a", "type": "string"}]}
    fields = ENTRY_FIELDS | {"_FILE": record("record__FILE", file_fields), "_NEW": new}
    mixed = m.read_manifest(_encode(fields, [raw])) + ENTRIES[:1]
    assert mixed[0] == ENTRIES[1]
    rewritten = m.write_manifest([mixed[0].flipped(), mixed[1]])
    first, second = header(rewritten)
    assert first["_FILE"]["_WRITE_COLS_SEQUENCES"] == [4, 5]
    assert first["_NEW"] == {"a": "b"}
    assert second["_FILE"]["_WRITE_COLS_SEQUENCES"] is None

    raw = next(iter(header(m.write_manifest_list([META])))) | {"_TOTAL_BUCKETS": 4}
    lists = m.read_manifest_list(_encode(LIST_FIELDS | {"_TOTAL_BUCKETS": ["null", "int"]}, [raw]))
    assert lists == [META]
    assert next(iter(header(m.write_manifest_list(lists))))["_TOTAL_BUCKETS"] == 4


def test_columns_that_an_old_writer_lacks_are_null() -> None:
    old = {k: v for k, v in FILE_FIELDS.items() if list(FILE_FIELDS).index(k) <= 12}
    fields = ENTRY_FIELDS | {"_FILE": record("record__FILE", old)}
    raw = next(iter(header(m.write_manifest(ENTRIES[1:]))))
    (entry,) = m.read_manifest(_encode(fields, [raw]))
    assert entry.file.creation_time == FULL.creation_time
    assert entry.file.value_stats_cols is None
    assert entry.file.file_source is None


def test_another_version_is_refused_by_name() -> None:
    raw = next(iter(header(m.write_manifest_list([META])))) | {"_VERSION": 3}
    with pytest.raises(UnsupportedError, match="manifest-list-x has version 3"):
        m.read_manifest_list(_encode(LIST_FIELDS, [raw]), "manifest-list-x")


def test_truncation_at_a_block_border_is_seen_by_the_size() -> None:
    data = m.write_manifest(ENTRIES)
    with pytest.raises(CorruptTableError, match="truncated"):
        m.read_manifest(data, size=len(data) + 1)
    assert m.read_manifest(data, size=len(data) - 1) == ENTRIES


@pytest.mark.parametrize("data", [b"", b"Obj\1", b"not avro at all", b"PAR1" * 20])
def test_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptTableError, match="manifest-7 cannot be read"):
        m.read_manifest(data, "manifest-7")


def test_an_avro_file_of_something_else_is_corrupt() -> None:
    with pytest.raises(CorruptTableError):
        m.read_manifest(m.write_manifest_list([META]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_never_escapes_as_a_foreign_error(data: st.DataObject) -> None:
    good = bytearray(m.write_manifest(ENTRIES))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    with suppress(CorruptTableError, UnsupportedError):
        found = m.read_manifest(bytes(good[:cut]) if data.draw(st.booleans()) else bytes(good))
        assert all(isinstance(entry, m.ManifestEntry) for entry in found)

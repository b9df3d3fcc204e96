"""What is refused, and how it is named."""

from __future__ import annotations

import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.features import Use, check_creatable, check_readable, check_writable, unsupported
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic


def _schema(
    options: dict[str, str], *, keys: tuple[str, ...] = ("k",), partitions: tuple[str, ...] = ()
) -> TableSchema:
    fields = tuple(DataField(i, n, parse_atomic("INT")) for i, n in enumerate("kvp"))
    return TableSchema(
        id=0, fields=fields, highest_field_id=2, primary_keys=keys, partition_keys=partitions, options=options
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "4", "bucket-function.type": "mod", "bucket-key": "k"},
        {"sequence.field": "v", "rowkind.field": "v", "ignore-delete": "true"},
        {"merge-engine": "deduplicate", "changelog-producer": "none", "file.format": "ORC"},
        {"write-only": "true", "file.format.per.level": "0:avro"},
        {"sequence.snapshot-ordering": "true", "write-only": "true", "bucket": "4"},
    ],
)
def test_supported(options: dict[str, str]) -> None:
    check_creatable(_schema(options))
    assert unsupported(_schema(options), Use.CREATE) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", "format-table"),
        ("primary-key.nullable", "true"),
        ("fields.v.map.storage-layout", "shared-shredding"),
    ],
)
def test_not_read(key: str, value: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{key}' = '{value}'.*cannot be read") as e:
        check_readable(_schema({key: value}))
    assert e.value.hint


def test_maps_in_columns_concern_their_column_only() -> None:
    schema = _schema({"fields.v.map.storage-layout": "shared-shredding"})
    check_readable(schema, ("k",))
    with pytest.raises(UnsupportedError, match=r"'fields.v.map.storage-layout'"):
        check_readable(schema, ("k", "v"))
    with pytest.raises(UnsupportedError, match=r"'fields.v.map.storage-layout'"):
        check_writable(schema)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("changelog-file.format", "csv"),
        ("file.format", "csv"),
        ("file.compression", "snapy"),
        ("file.compression", "lzo"),
        ("commit.callbacks", "a.B"),
        ("manifest.compression", "none"),
        ("manifest.compression", "SNAPPY"),
        ("metadata.iceberg.storage", "table-location"),
        ("pk-multivalue.index.columns", "v"),
    ],
)
def test_read_but_not_written(key: str, value: str) -> None:
    check_readable(_schema({key: value}))
    with pytest.raises(UnsupportedError, match=f"'{key}' = '{value}'.*cannot be written") as e:
        check_writable(_schema({key: value}))
    assert e.value.hint


@pytest.mark.parametrize("name", ["zstd", "ZSTD", "zstandard", "snappy", "deflate", "bzip2", "xz", "null"])
def test_codecs_of_manifests(name: str) -> None:
    schema = _schema({"manifest.compression": name})
    check_creatable(schema)
    assert unsupported(schema, Use.CREATE) == []


def test_the_codec_of_each_level_must_be_one_of_its_format() -> None:
    good = {
        "file.format.per.level": "0:avro",
        "file.compression.per.level": "0:bzip2,5:none",
        "file.compression": "LZ4",
    }
    check_writable(_schema(good))
    with pytest.raises(UnsupportedError, match=r"'file.compression' = 'lz4'.* avro files choose one of zstd"):
        check_writable(_schema(good | {"file.compression.per.level": "5:none"}))
    with pytest.raises(UnsupportedError, match=r"at level '5' = 'bzip2'.* parquet files choose"):
        check_writable(_schema(good | {"file.compression.per.level": "0:none,5:bzip2"}))


def test_orc_with_lz4_is_kept_but_not_chosen() -> None:
    old = _schema({"file.format": "orc", "file.compression": "lz4"})
    check_writable(old)
    check_creatable(_schema(dict(old.options) | {"write-only": "true"}), before=old)
    with pytest.raises(UnsupportedError, match=r"'file.compression' = 'lz4'"):
        check_creatable(old)


def test_unknown_codecs_of_levels_stop_writers_only() -> None:
    bad = _schema({"file.compression.per.level": "0=lz4"})
    check_readable(bad)
    check_creatable(_schema({"file.compression.per.level": "0:lz4"}), before=bad)
    check_creatable(_schema({}), before=bad)
    with pytest.raises(UnsupportedError, match=r"'file.compression.per.level' = '0=lz4'"):
        check_writable(bad)


def test_an_old_feature_is_not_held_against_a_change() -> None:
    old = _schema({"changelog-producer": "lookup"})
    check_creatable(_schema({"changelog-producer": "lookup", "write-only": "true"}), before=old)
    with pytest.raises(UnsupportedError, match="changed to have 'row-tracking"):
        check_creatable(_schema({"changelog-producer": "lookup", "row-tracking.enabled": "true"}), before=old)


def test_a_key_that_moves_must_not_be_protected_from_deletes() -> None:
    check_writable(_schema({}, partitions=("p",)))
    schema = _schema({"ignore-delete": "true"}, partitions=("p",))
    check_readable(schema)
    with pytest.raises(UnsupportedError, match=r"'ignore-delete' = 'true'.*does not contain the partition columns"):
        check_writable(schema)
    check_writable(_schema({"ignore-delete": "true", "bucket": "2"}, partitions=("p",)))
    check_writable(_schema({"ignore-delete": "true"}, keys=("k", "p"), partitions=("p",)))


def test_changelog_files_need_a_codec_of_their_format() -> None:
    check_writable(_schema({"changelog-file.format": "avro", "changelog-file.compression": "bzip2"}))
    with pytest.raises(UnsupportedError, match=r"'bzip2' of changelog files.*parquet files choose one of zstd"):
        check_writable(_schema({"changelog-file.compression": "bzip2"}))


def test_an_append_table_has_no_merge_engine() -> None:
    options = {"merge-engine": "aggregation", "changelog-producer": "lookup"}
    assert unsupported(_schema(options, keys=()), Use.WRITE) == []


def test_columns() -> None:
    fields = (DataField(0, "a", parse_atomic("INT")), DataField(1, "b", parse_atomic("BLOB")))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1)
    check_readable(schema, ("a",))
    with pytest.raises(UnsupportedError, match="column 'b' of type BLOB"):
        check_readable(schema)

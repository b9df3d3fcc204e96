from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.system.columns import COLUMNS
from paimon_spark.core.system.render import partition_set, partition_spec, raw_text, sql_text
from paimon_spark.core.system.tables import SYSTEM_SCANS, SYSTEM_TABLE_NAMES, system_table, system_table_schema
from paimon_spark.errors import CorruptTableError, NotFoundError, UnsupportedError
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, HASH_INDEX, DeletionRange, IndexFileMeta
from paimon_spark.spec.refs import Consumer, Tag
from paimon_spark.spec.rows import Timestamp, encode_row
from paimon_spark.spec.types import DataField, type_from_json, type_text
from tests.unit.core import samples

HOUR = timezone(timedelta(hours=1))


def rows(table: samples.Table, name: str, **more: object) -> list[dict[str, object]]:
    found = system_table(table, name, zone=UTC, **more)  # type: ignore[arg-type]
    assert found.schema == COLUMNS[name]
    return found.to_pylist()


def written(*messages: samples.CommitMessage, **schema: object) -> samples.Table:
    table = samples.table({"bucket": "2"}, keys=["k"], **schema)  # type: ignore[arg-type]
    for message in messages:
        FileStoreCommit(table, "me", clock=lambda: 1.5).commit([message], CommitMetadata(operation="WRITE"))
    return table


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_a_table_without_snapshots_has_every_system_table(name: str) -> None:
    found = system_table(samples.table(), name)
    assert found.schema == COLUMNS[name] == system_table_schema(name)
    assert found.num_rows == {"schemas": 1, "aggregation_fields": 3}.get(name, 0)


def test_snapshots() -> None:
    table = written(samples.message(samples.file(1, 2, rows=7)), samples.message(samples.file(1, 2, rows=5)))
    first, second = rows(table, "snapshots")
    assert (first["snapshot_id"], first["commit_kind"], first["commit_user"], first["operation"]) == (
        1,
        "APPEND",
        "me",
        "WRITE",
    )
    assert first["commit_time"] == datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert (second["total_record_count"], second["delta_record_count"]) == (12, 5)
    later = system_table(table, "snapshots", zone=HOUR).to_pylist()[0]
    assert later["commit_time"] == datetime(1970, 1, 1, 1, 0, 1, 500_000)


def test_schemas_and_options() -> None:
    table = samples.table({"bucket": "2", "owner": "me"}, keys=["p", "k"], partitions=["p"])
    (schema,) = rows(table, "schemas")
    assert schema["fields"] == (
        '[{"id":0,"name":"k","type":"INT NOT NULL"},{"id":1,"name":"v","type":"INT"},'
        '{"id":2,"name":"p","type":"STRING NOT NULL"}]'
    )
    assert (schema["partition_keys"], schema["primary_keys"]) == ('["p"]', '["p","k"]')
    assert schema["options"] == '{"bucket":"2","owner":"me"}'
    assert rows(table, "options") == [{"key": "bucket", "value": "2"}, {"key": "owner", "value": "me"}]


def test_files_show_keys_and_statistics_as_stored() -> None:
    file = samples.file(3, 8, rows=4, v=5, creation_time=1500, level=2, file_source=FileSource.COMPACT)
    table = written(samples.message(file, bucket=1, partition_value="x", total_buckets=2), partitions=["p"])
    (row,) = rows(table, "files")
    assert row == {
        "partition": "{x}",
        "bucket": 1,
        "file_path": f"/wh/db.db/t/p=x/bucket-1/{file.file_name}",
        "file_format": "parquet",
        "schema_id": 0,
        "level": 2,
        "record_count": 4,
        "file_size_in_bytes": 1000,
        "min_key": "[3]",
        "max_key": "[8]",
        "null_value_counts": "{k=0, p=0, v=0}",
        "min_value_stats": "{k=3, p=a, v=5}",
        "max_value_stats": "{k=8, p=z, v=5}",
        "min_sequence_number": 0,
        "max_sequence_number": 3,
        "creation_time": datetime(1970, 1, 1, 0, 0, 1, 500_000),
        "deleteRowCount": 0,
        "file_source": "COMPACT",
        "first_row_id": None,
        "write_cols": None,
    }
    (light,) = rows(table, "file_key_ranges")
    assert light == {k: row[k] for k in light}


def test_files_of_an_append_table_have_no_key() -> None:
    table = samples.table()
    FileStoreCommit(table, "me").commit([samples.message(samples.file(rows=2))])
    (row,) = rows(table, "files")
    assert (row["partition"], row["min_key"], row["max_key"]) == ("{}", None, None)


def test_partitions_and_buckets_sum_up_live_files() -> None:
    table = written(
        samples.message(samples.file(1, 2, rows=7, creation_time=10), partition_value="b", total_buckets=2),
        samples.message(samples.file(1, 2, rows=5, creation_time=20), partition_value="a", total_buckets=2),
        samples.message(samples.file(3, 4, rows=1, creation_time=15), partition_value="a", bucket=1, total_buckets=2),
        partitions=["p"],
    )
    a, b = rows(table, "partitions")
    assert (a["partition"], a["record_count"], a["file_count"], a["file_size_in_bytes"]) == ("p=a", 6, 2, 2000)
    assert (a["last_update_time"], a["total_buckets"], a["done"]) == (
        datetime(1970, 1, 1) + timedelta(milliseconds=20),
        2,
        False,
    )
    assert (a["deleted_record_count"], b["partition"]) == (0, "p=b")
    found = [(r["partition"], r["bucket"], r["record_count"]) for r in rows(table, "buckets")]
    assert found == [("{a}", 0, 5), ("{a}", 1, 1), ("{b}", 0, 7)]
    decode_errors = rows(table, "partitions", snapshot=table.snapshots.get(1))
    assert [r["partition"] for r in decode_errors] == ["p=b"]
    assert rows(table.with_options({"scan.snapshot-id": "1"}), "partitions") == decode_errors


def test_manifests() -> None:
    table = written(samples.message(samples.file(1, 2), partition_value="x", total_buckets=2), partitions=["p"])
    (row,) = rows(table, "manifests")
    assert (row["num_added_files"], row["num_deleted_files"]) == (1, 0)
    assert (row["min_partition_stats"], row["max_partition_stats"], row["schema_id"]) == ("{x}", "{x}", 0)


def test_index_files() -> None:
    indexes = (
        IndexFileMeta(index_type=HASH_INDEX, file_name="index-1", file_size=8, row_count=2),
        IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name="index-2",
            file_size=30,
            row_count=1,
            deletion_ranges=(DeletionRange("data-1.parquet", 1, 22, 3),),
        ),
    )
    table = written(samples.message(samples.file(1, 2, file_name="data-1.parquet"), new_index_files=indexes))
    by_type = {r["index_type"]: r for r in rows(table, "table_indexes")}
    assert by_type["HASH"]["dv_ranges"] is None
    assert by_type["DELETION_VECTORS"]["dv_ranges"] == [{"f0": "data-1.parquet", "f1": 1, "f2": 22, "_CARDINALITY": 3}]
    assert rows(table, "partitions")[0]["deleted_record_count"] == 3


@pytest.mark.parametrize("millis", [-62_135_596_800_001, 253_402_300_799_999])
def test_times_of_years_that_python_does_not_know(millis: int) -> None:
    t = type_from_json("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    for hours in (-9, 9):
        shifted = sql_text(Timestamp(millis), t, timezone(timedelta(hours=hours)))
        assert shifted == sql_text(Timestamp(millis + hours * 3_600_000), t, UTC)


def test_tags_branches_and_consumers() -> None:
    table = written(samples.message(samples.file(1, 2, rows=7)))
    io, paths, snapshot = table.file_io, table.paths, table.snapshots.get(1)
    io.write(paths.tag("b"), Tag(snapshot).to_json().encode())
    io.write(paths.tag("a"), Tag(snapshot, datetime(2024, 5, 1, 2, 3, 4, 5), timedelta(days=1)).to_json().encode())
    a, b = rows(table, "tags")
    assert (a["tag_name"], a["create_time"], a["time_retained"]) == ("a", datetime(2024, 5, 1, 2, 3, 4, 5), "PT24H")
    assert (b["snapshot_id"], b["record_count"], b["create_time"], b["time_retained"]) == (1, 7, None, None)
    io.write(paths.consumer("c"), Consumer(4).to_json().encode())
    assert rows(table, "consumers") == [{"consumer_id": "c", "next_snapshot_id": 4}]
    io.write(replace(table, branch="dev").paths.snapshot(1), snapshot.to_json().encode())
    assert [r["branch_name"] for r in rows(table, "branches")] == ["dev"]


def test_statistics_come_from_the_snapshot() -> None:
    table = written(samples.message(samples.file(1, 2)))
    snapshot = replace(table.snapshots.get(1), statistics="stat-1")
    text = b'{"snapshotId":1,"schemaId":0,"mergedRecordCount":7,"colStats":{"k":{"colId":0,"min":"1"}}}'
    table.file_io.write(table.paths.statistics("stat-1"), text)
    (row,) = rows(table, "statistics", snapshot=snapshot)
    assert (row["snapshot_id"], row["mergedRecordCount"], row["mergedRecordSize"]) == (1, 7, None)
    assert row["colstat"] == '{\n  "k" : {\n    "colId" : 0,\n    "min" : "1"\n  }\n}'
    table.file_io.write(table.paths.statistics("stat-1"), b"[]")
    with pytest.raises(CorruptTableError, match="stat-1"):
        system_table(table, "statistics", snapshot=snapshot)


def test_aggregation_fields() -> None:
    table = samples.table({"fields.v.aggregate-function": "sum", "fields.v.ignore-retract": "true"})
    found = {r["field_name"]: r for r in rows(table, "aggregation_fields")}
    assert (found["v"]["function"], found["v"]["field_type"]) == ("[sum, true]", "INT")
    assert found["v"]["function_options"] == "[fields.v.aggregate-function, fields.v.ignore-retract]"
    assert (found["k"]["function"], found["k"]["field_type"]) == ("[]", "INT NOT NULL")


def test_names() -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'snapshots'"):
        system_table(samples.table(), "snapshot")
    with pytest.raises(NotFoundError, match="There are: aggregation_fields"):
        system_table(samples.table(), "qqq")
    with pytest.raises(UnsupportedError, match="file_monitor"):
        system_table(samples.table(), "file_monitor")
    with pytest.raises(UnsupportedError, match=r"\$audit_log shows rows of the table"):
        system_table(samples.table(), "audit_log")
    assert set(SYSTEM_SCANS) | set(COLUMNS) == set(SYSTEM_TABLE_NAMES)
    assert SYSTEM_SCANS["ro"].top_level_only
    assert SYSTEM_SCANS["audit_log"].keep_kinds


@pytest.mark.parametrize(
    ("spelling", "value", "raw", "sql"),
    [
        ("INT", -3, "-3", "-3"),
        ("BOOLEAN", True, "true", "true"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("DATE", 19857, "19857", "2024-05-14"),
        ("TIMESTAMP(3)", Timestamp(0, 0), "1970-01-01T00:00", "1970-01-01 00:00:00.000"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", Timestamp(0, 0), "1970-01-01T00:00", "1970-01-01 01:00:00.000"),
        ("BYTES", b"\x00\xff", "0x00ff", "\x00\ufffd"),
        ("STRING", None, "null", "null"),
    ],
)
def test_values_as_text(spelling: str, value: object, raw: str, sql: str) -> None:
    t = type_from_json(spelling)
    assert raw_text(value, t) == raw
    assert sql_text(value, t, HOUR) == sql


def test_partitions_as_text() -> None:
    fields = [DataField(0, "d", type_from_json("DATE")), DataField(1, "s", type_from_json("STRING"))]
    row = encode_row([19857, None], [f.type for f in fields])
    assert partition_set(row, fields) == "{2024-05-14, null}"
    assert partition_spec(row, fields, "none") == "d=2024-05-14/s=none"


def test_types_as_text() -> None:
    nested = {
        "type": "ROW NOT NULL",
        "fields": [
            {"id": 0, "name": "a", "type": {"type": "ARRAY", "element": "INT NOT NULL"}},
            {"id": 1, "name": "m", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "DATE"}},
        ],
    }
    assert type_text(type_from_json(nested)) == "ROW<`a` ARRAY<INT NOT NULL>, `m` MAP<STRING NOT NULL, DATE>> NOT NULL"


def test_the_page_names_every_system_table() -> None:
    page = (Path(__file__).parents[4] / "docs/system-tables.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"^\| `\$(\w+)`", page, re.MULTILINE))) == sorted(SYSTEM_TABLE_NAMES)


def test_times_are_wall_clocks() -> None:
    times = [f.type for schema in COLUMNS.values() for f in schema if pa.types.is_timestamp(f.type)]
    assert times
    assert all(t.tz is None for t in times)


def test_postponed_rows_are_in_the_bucket_that_no_bucket_has() -> None:
    table = written(samples.message(samples.file(1, 2, rows=7)), samples.message(samples.file(1, 2, rows=5), bucket=-2))
    assert [(r["bucket"], r["record_count"]) for r in rows(table, "buckets")] == [(-2, 5), (0, 7)]
    assert [r["record_count"] for r in rows(table, "files")] == [7]

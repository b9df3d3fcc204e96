"""Spark types as JSON, and batches in types that Spark reads."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.types import batch_for_spark, field_from_spark, plain_struct, type_from_spark, type_to_spark
from paimon_spark.spec.types import DataField, type_from_json, type_to_json


@pytest.mark.parametrize("place", ["s", "s.element"])
def test_a_collation_is_refused(place: str) -> None:
    field = {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {place: "spark.UTF8_LCASE"}}}
    with pytest.raises(UnsupportedError, match="collation"):
        field_from_spark(field)


BOTH_WAYS = [
    ("boolean", "BOOLEAN"),
    ("byte", "TINYINT"),
    ("short", "SMALLINT"),
    ("integer", "INT"),
    ("long", "BIGINT"),
    ("float", "FLOAT"),
    ("double", "DOUBLE"),
    ("date", "DATE"),
    ("string", "STRING"),
    ("binary", "BYTES"),
    ("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("timestamp_ntz", "TIMESTAMP(6)"),
    ("decimal(12,3)", "DECIMAL(12, 3)"),
    ("char(4)", "CHAR(4)"),
    ("varchar(9)", "VARCHAR(9)"),
]


@pytest.mark.parametrize(("spark", "paimon"), BOTH_WAYS)
def test_atomic_types_match_in_both_directions(spark: str, paimon: str) -> None:
    assert type_to_json(type_from_spark(spark)) == paimon
    assert type_to_spark(type_from_json(paimon)) == spark


@pytest.mark.parametrize(
    ("paimon", "spark"), [("TIME(3)", "integer"), ("BINARY(3)", "binary"), ("TIMESTAMP(9)", "timestamp_ntz")]
)
def test_types_that_spark_lacks_are_read_as_the_nearest(paimon: str, spark: str) -> None:
    assert type_to_spark(type_from_json(paimon)) == spark


def test_nested_types_keep_their_nullability() -> None:
    member = {"name": "m", "type": "integer", "nullable": False, "metadata": {}}
    struct = {"type": "struct", "fields": [member]}
    spark = {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True}
    assert type_to_spark(type_from_spark(spark)) == spark
    array = {"type": "array", "elementType": "long", "containsNull": False}
    assert type_to_spark(type_from_spark(array)) == array


def test_what_the_format_cannot_store_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="interval"):
        type_from_spark("interval")


def test_comment_and_default_of_a_column_are_taken() -> None:
    metadata = {"comment": "c", "CURRENT_DEFAULT": "7"}
    field = field_from_spark({"name": "a", "type": "integer", "nullable": False, "metadata": metadata})
    assert (field.description, field.default_value, field.type.nullable) == ("c", "7", False)


def test_rows_that_are_read_are_plain_strings_and_nullable() -> None:
    (field,) = plain_struct([DataField(1, "c", type_from_json("CHAR(4) NOT NULL"), "text")])["fields"]
    assert field == {"name": "c", "type": "string", "nullable": True, "metadata": {}}


def test_batches_get_types_that_spark_reads() -> None:
    stamp = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    batch = pa.RecordBatch.from_pydict(
        {
            "t": pa.array([datetime.time(0, 0, 1)], pa.time32("ms")),
            "ms": pa.array([stamp.replace(microsecond=0)], pa.timestamp("ms")),
            "ns": pa.array([-1], pa.timestamp("ns")),
            "z": pa.array([stamp], pa.timestamp("us", "UTC")),
            "d": pa.array(["x"]).dictionary_encode(),
        }
    )
    got = batch_for_spark(batch)
    assert got.schema.types == [
        pa.int32(),
        pa.timestamp("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.string(),
    ]
    assert got.column("t").to_pylist() == [1000]
    assert got.column("ns").to_pylist() == [stamp]


def test_the_default_collation_written_out_is_a_plain_string() -> None:
    """Spark from 4.2 on writes it in the answer of SHOW CREATE TABLE."""
    assert type_from_spark("string collate UTF8_BINARY") == type_from_spark("string")
    with pytest.raises(UnsupportedError, match="UTF8_BINARY_RTRIM"):
        type_from_spark("string collate UTF8_BINARY_RTRIM")


def test_nanoseconds_are_cut_downwards_in_nested_values_too() -> None:
    times = pa.array([-1500, None], pa.int64()).view(pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays([0, 1, 2], times)
    batch = batch_for_spark(
        pa.record_batch([times, lists, pa.StructArray.from_arrays([times], ["x"])], ["t", "l", "s"])
    )
    micros = [batch["t"], batch["l"].values, batch["s"].field("x")]
    assert [m.cast(pa.int64()).to_pylist() for m in micros] == [[-2, None]] * 3

"""Paimon types and Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import (
    PARQUET_FIELD_ID,
    fields_from_arrow,
    from_arrow,
    to_arrow_schema,
    to_arrow_type,
)
from paimon_spark.spec.types import ArrayType, DataField, MapType, MultisetType, RowType, parse_atomic, type_to_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TINYINT", pa.int8()),
        ("CHAR(3)", pa.string()),
        ("STRING", pa.string()),
        ("BINARY(4)", pa.binary()),
        ("DECIMAL(38, 10)", pa.decimal128(38, 10)),
        ("DATE", pa.date32()),
        ("TIME(0)", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(9)", pa.timestamp("ns")),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", "UTC")),
        ("VARIANT", pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])),
    ],
)
def test_atomic_types(text: str, expected: pa.DataType) -> None:
    assert to_arrow_type(parse_atomic(text)) == expected


def test_nested_types_carry_the_ids_of_the_format() -> None:
    inner = RowType((DataField(5, "x", ArrayType(parse_atomic("INT"))),))
    field = DataField(2, "m", MapType(parse_atomic("STRING"), ArrayType(inner)))
    got = to_arrow_schema([field]).field("m")

    def id_of(f: pa.Field) -> int:
        return int(f.metadata[PARQUET_FIELD_ID])

    assert id_of(got) == 2
    assert id_of(got.type.key_field) == 536870911 - 2 * 1024 - 1
    assert id_of(got.type.item_field) == 536870911 + 2 * 1024 + 1
    element = got.type.item_type.value_field
    assert id_of(element) == 536870911 + 2 * 1024 + 2
    assert id_of(element.type.field("x")) == 5
    assert id_of(element.type.field("x").type.value_field) == 536870911 + 5 * 1024 + 1
    assert not got.type.key_field.nullable


def test_multiset_is_a_map_to_counts() -> None:
    assert to_arrow_type(MultisetType(parse_atomic("STRING"))) == pa.map_(
        pa.string(), pa.field("value", pa.int32(), nullable=False)
    )


def test_fields_from_arrow_number_nested_members_first() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("r", pa.struct([("x", pa.large_string()), ("y", pa.list_(pa.timestamp("ns", "Europe/Berlin")))])),
        ]
    )
    a, r = fields_from_arrow(schema)
    assert (a.id, r.id) == (0, 3)
    assert type_to_json(a.type) == "BIGINT NOT NULL"
    assert isinstance(r.type, RowType)
    assert [(f.id, f.name) for f in r.type.fields] == [(1, "x"), (2, "y")]
    assert type_to_json(r.type.fields[1].type) == {"type": "ARRAY", "element": "TIMESTAMP(9) WITH LOCAL TIME ZONE"}


def test_types_without_a_counterpart_are_named() -> None:
    with pytest.raises(UnsupportedError, match="uint64"):
        from_arrow(pa.uint64())

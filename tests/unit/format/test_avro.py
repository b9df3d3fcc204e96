"""What only Avro data files do."""

from __future__ import annotations

import datetime as dt
import io as bytes_io
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.avro.avro_format import AvroReader
from paimon_spark.format.avro.schema import avro_schema
from paimon_spark.format.registry import for_name
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import DataField, MapType, RowType, parse_atomic
from tests.data_files import read_batches

PATH = "/t/data-1.avro"


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_large_file_is_read_piece_by_piece(codec: str) -> None:
    fields = [DataField(0, "a", parse_atomic("BIGINT")), DataField(1, "s", parse_atomic("STRING"))]
    numbers = np.random.default_rng(0).integers(0, 2**50, 300_000)
    rows = pa.table({"a": numbers, "s": pa.array(numbers).cast("string")}).cast(to_arrow_schema(fields))
    store = InMemoryFileIO()
    writer = for_name("avro").open_writer(store, PATH, fields, compression=codec)
    writer.write(rows)
    size = writer.close().size
    assert size > 1 << 20, "several pieces"
    with AvroReader(store, PATH, fields, size, in_memory=0) as reader:
        assert reader.row_count == rows.num_rows
        for found in (reader.batches(), reader.chunks([0], 1 << 16, streamed=True)):
            assert pa.Table.from_batches(found).equals(rows)
    data = store.read(PATH)
    store.write(PATH, data[: len(data) // 2])
    with pytest.raises(CorruptTableError, match=rf"It has {len(data) // 2} bytes, its manifest records {size}"):
        AvroReader(store, PATH, fields, size, in_memory=0)


def test_records_inside_a_union_with_null() -> None:
    fields = [DataField(0, "a", parse_atomic("INT")), DataField(1, "t", parse_atomic("TIMESTAMP(3)"))]
    out = bytes_io.BytesIO()
    schema: Any = ["null", avro_schema(fields)]
    fastavro.writer(out, fastavro.parse_schema(schema), [{"a": 1, "t": 253402300799999}, {"a": None, "t": None}])
    store = InMemoryFileIO()
    store.write(PATH, out.getvalue())
    (batch,) = read_batches(store, PATH, fields)
    assert batch.to_pylist() == [
        {"a": 1, "t": dt.datetime(9999, 12, 31, 23, 59, 59, 999000)},
        {"a": None, "t": None},
    ]


def test_schema_as_java_writes_it() -> None:
    fields = [
        DataField(0, "k", parse_atomic("BIGINT NOT NULL")),
        DataField(1, "z", parse_atomic("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        DataField(2, "m", MapType(parse_atomic("INT"), parse_atomic("STRING"))),
    ]
    k, z, m = avro_schema(fields)["fields"]
    assert k == {"name": "k", "type": "long"}
    assert z["type"] == ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]
    assert m["type"][1]["logicalType"] == "map"
    assert m["type"][1]["items"]["name"] == "record_m"
    assert m["type"][1]["items"]["fields"][0] == {"name": "key", "type": "int"}


def test_what_avro_cannot_hold_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"TIMESTAMP\(9\)"):
        for_name("avro").open_writer(InMemoryFileIO(), PATH, [DataField(0, "t", parse_atomic("TIMESTAMP(9)"))])
    with pytest.raises(UnsupportedError, match="snappy"):
        for_name("avro").open_writer(InMemoryFileIO(), PATH, [], compression="snappy")


@pytest.mark.parametrize("rows", [3, 60_000])
@pytest.mark.parametrize("names", [("a_b", "a"), ("a.x", "b.x"), ("x.a_b", "y.a"), ("a.x", "a_x")])
def test_rows_whose_names_collide_are_read_back(names: tuple[str, str], rows: int) -> None:
    inner = RowType((DataField(1, "y", parse_atomic("BIGINT")),))
    row = RowType((DataField(2, "b", inner),))
    fields = [DataField(0, names[0], inner), DataField(3, names[1], row)]
    schema = to_arrow_schema(fields)
    made = [pa.array([{"y": i} for i in range(rows)]), pa.array([{"b": {"y": -i}} for i in range(rows)])]
    table = pa.table([a.cast(t) for a, t in zip(made, schema.types, strict=True)], schema=schema)
    store = InMemoryFileIO()
    writer = for_name("avro").open_writer(store, PATH, fields)
    writer.write(table)
    writer.close()
    assert pa.Table.from_batches(read_batches(store, PATH, fields)).equals(table)


def test_records_of_one_name_in_two_namespaces() -> None:
    def one(name: str, member: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": member, "type": "int"}]}

    members = [{"name": "a", "type": one("p.x", "m")}, {"name": "b", "type": one("q.x", "n")}]
    out = bytes_io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": members}, [{"a": {"m": 1}, "b": {"n": 2}}])
    store = InMemoryFileIO()
    store.write(PATH, out.getvalue())
    a, b = (RowType((DataField(i, n, parse_atomic("INT")),)) for i, n in enumerate("mn"))
    (batch,) = read_batches(store, PATH, [DataField(2, "a", a), DataField(3, "b", b)])
    assert batch.to_pylist() == [{"a": {"m": 1}, "b": {"n": 2}}]


def test_an_empty_union_map_is_no_row() -> None:
    fields = [DataField(0, "m", MapType(parse_atomic("STRING"), parse_atomic("INT")))]
    store = InMemoryFileIO()
    writer = for_name("avro").open_writer(store, PATH, fields, compression="none")
    writer.write(pa.table({"m": [[("a", 1)], [], None]}, schema=to_arrow_schema(fields)))
    writer.close()
    (batch,) = read_batches(store, PATH, fields)
    assert batch.column(0).to_pylist() == [[("a", 1)], [], None]

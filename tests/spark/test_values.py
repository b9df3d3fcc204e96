"""Random columns of every type: Spark reads of a table what was written, by its own scans or through workers."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, DataType, RowType, children, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.columns import ATOMIC, draw_array, draw_type, exact, fields_of
from tests.variants import mostly_slow

FORMATS = {name: tuple(t for t in ATOMIC if "(9)" not in t) for name in ("parquet", "orc", "avro")}
DAYS = (-719162, -141428, -141427, -719163 + 365 * 1500, 0, 2932896)
"""Days of the first year, around the first of the Gregorian calendar, and of the last year."""


def database(spark: SparkSession) -> str:
    return str(spark.sql("SELECT current_database()").collect()[0][0])


def create(
    spark: SparkSession, warehouse: Path, fields: list[DataField], keys: tuple[str, ...], **options: str
) -> Table:
    """Create an empty table in the current database."""
    schema = TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=100,
        partition_keys=(),
        primary_keys=keys,
        options=options,
        time_millis=0,
    )
    path = f"{warehouse}/{database(spark)}.db/t"
    table = Table.of(Identifier(database(spark), "t"), path, schema, file_io_for(path, {}))
    assert table.schema_store.try_create(schema)
    return table


def in_spark(spark: SparkSession, fields: list[DataField], sql: str = "SELECT * FROM t ORDER BY id") -> dict[str, list]:
    """Return what Spark reads, column by column."""
    found = spark.sql(sql).toArrow()
    target = to_arrow_schema(fields)
    return {
        f.name: exact(pa.concat_arrays([_like(c, target.field(i).type) for c in found.column(i).chunks]), f.type)
        for i, f in enumerate(fields)
    }


def _like(array: pa.Array, t: pa.DataType) -> pa.Array:
    """Return an array of Spark in the types of the table: Spark counts all times in microseconds."""
    if pa.types.is_timestamp(t):
        return array.cast(pa.timestamp("us")).cast(pa.timestamp(t.unit)).cast(t)
    if pa.types.is_list(t):
        return pa.ListArray.from_arrays(array.offsets, _like(array.values, t.value_type), mask=array.is_null())
    if pa.types.is_map(t):
        keys, items = _like(array.keys, t.key_type), _like(array.items, t.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    if pa.types.is_struct(t):
        parts = [_like(array.field(i), t.field(i).type) for i in range(t.num_fields)]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in t], mask=array.is_null())
    return array if array.type == t else array.cast(t)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
def test_spark_reads_what_was_written(spark: SparkSession, warehouse: Path, file_format: str, seed: int) -> None:
    rng = random.Random(seed)
    atomic = [t for t in FORMATS[file_format] if not t.startswith(("TIME(", "CHAR("))]  # Spark pads the latter
    drawn = (draw_type(rng, depth=rng.randrange(3), atomic=atomic) for _ in range(30))
    types = [parse_atomic("INT NOT NULL"), *[t for t in drawn if not _strict(t)][:12]]
    fields = [DataField(f.id, "id" if i == 0 else f.name, f.type) for i, f in enumerate(fields_of(types))]
    arrays = [draw_array(rng, f.type, 60) for f in fields[1:]]
    rows = pa.Table.from_arrays([pa.array(range(60), pa.int32()), *arrays], schema=to_arrow_schema(fields))
    table = create(spark, warehouse, fields, (), **{"file.format": file_format})
    kept = _written(table, rows)
    wanted = {f.name: exact(kept[f.name].combine_chunks(), f.type) for f in fields}
    assert in_spark(spark, fields) == wanted
    spark.conf.set("spark.paimon.read.local-max-bytes", "16 mb")
    assert in_spark(spark, fields) == wanted
    spark.conf.set("spark.paimon.read.local-max-bytes", "0")
    for f in fields[1:]:  # each column alone, so that native scans meet those that they may read
        found = in_spark(spark, [fields[0], f], f"SELECT id, {f.name} FROM t ORDER BY id")
        assert found[f.name] == wanted[f.name], f.type


def _strict(t: DataType) -> bool:
    """Return whether a row in a type has members that are NOT NULL: of null rows, toArrow of PySpark fails at them."""
    return (isinstance(t, RowType) and not all(f.type.nullable for f in t.fields)) or any(map(_strict, children(t)))


def _written(table: Table, rows: pa.Table) -> pa.Table:
    """Write the rows that the table takes, and return them."""
    from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
    from paimon_spark.errors import ArgumentError

    kept = []
    for i in range(rows.num_rows):
        try:
            prepare_batch(rows.slice(i, 1), WriteRules.of(table))
        except ArgumentError:
            continue
        kept.append(i)
    assert kept
    write_arrow(table, rows.take(kept))
    return rows.take(kept)


@pytest.mark.parametrize("file_format", FORMATS)
def test_days_before_the_gregorian_calendar(spark: SparkSession, warehouse: Path, file_format: str) -> None:
    fields = fields_of([parse_atomic("INT"), parse_atomic("DATE")])
    table = create(spark, warehouse, fields, (), **{"file.format": file_format})
    days = pa.array(DAYS, pa.int32()).cast(pa.date32())
    write_arrow(table, pa.table({"c0": pa.array(range(len(DAYS)), pa.int32()), "c1": days}))
    found = spark.sql("SELECT unix_date(c1) FROM t ORDER BY c0").collect()
    assert [r[0] for r in found] == list(DAYS)
    shown = [d.as_py() for d in days]
    for day in shown:
        assert spark.sql(f"SELECT count(*) FROM t WHERE c1 = DATE '{day.isoformat()}'").collect()[0][0] == 1


def test_nanoseconds_beside_other_times_in_parquet(spark: SparkSession, warehouse: Path) -> None:
    """A file with INT96 for one column, of which Spark itself reads another one."""
    fields = fields_of([parse_atomic(t) for t in ("INT", "TIMESTAMP(9)", "TIMESTAMP(6)", "TIMESTAMP(3)")])
    table = create(spark, warehouse, fields, ())
    far = [253402300799999999, -62135596799999999, -1]
    columns = [range(3), [7, -7, -(10**18) - 1], far, [v // 1000 for v in far]]
    units = [None, "ns", "us", "ms"]
    arrays = [
        pa.array(c, pa.int64()).cast(pa.timestamp(u) if u else pa.int32()) for c, u in zip(columns, units, strict=True)
    ]
    write_arrow(table, pa.table(arrays, names=["c0", "c1", "c2", "c3"]))
    sql = "SELECT unix_micros(CAST(c{} AS TIMESTAMP)) FROM t ORDER BY c0"
    assert [r[0] for r in spark.sql(sql.format(2)).collect()] == far
    assert [r[0] for r in spark.sql(sql.format(3)).collect()] == [v // 1000 * 1000 for v in far]
    assert [r[0] for r in spark.sql(sql.format(1)).collect()] == [0, -1, -(10**15) - 1]


@pytest.mark.parametrize("file_format", FORMATS)
def test_early_and_late_times_survive_compactions(spark: SparkSession, file_format: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT NOT NULL, t TIMESTAMP_NTZ, l ARRAY<TIMESTAMP>, m MAP<INT, STRUCT<x: TIMESTAMP_NTZ>>) "
        f"TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'file.format'='{file_format}')"
    )
    times = [
        "9999-12-31 23:59:59.999999",
        "0001-01-01 00:00:00.000001",
        "1969-12-31 23:59:58.123456",
        "1600-02-29 01:02:03.4",
    ]
    for n, text in enumerate(times * 3):
        spark.sql(
            f"INSERT INTO t VALUES ({n}, TIMESTAMP_NTZ '1969-12-31 23:59:58.5', NULL, NULL), ({n % 4}, TIMESTAMP_NTZ '{text}', "
            f"array(TIMESTAMP '{text}', NULL), map({n}, named_struct('x', TIMESTAMP_NTZ '{text}'), -1, NULL))"
        )
    spark.sql("CALL sys.compact(table => 't')")
    spark.sql("INSERT INTO t VALUES (3, TIMESTAMP_NTZ '2262-04-12 00:00:00', NULL, NULL)")
    found = spark.sql(
        "SELECT id, CAST(t AS STRING), CAST(l[0] AS STRING), CAST(m[id + 8].x AS STRING) FROM t ORDER BY id"
    ).collect()
    assert [tuple(r) for r in found[:3]] == [(n, text, text, text) for n, text in enumerate(times[:3])]
    assert tuple(found[3]) == (3, "2262-04-12 00:00:00", None, None)
    assert [tuple(r) for r in found[4:]] == [(n, "1969-12-31 23:59:58.5", None, None) for n in range(4, 12)]


def test_a_time_that_orc_cannot_hold_is_refused(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, t TIMESTAMP) TBLPROPERTIES ('primary-key'='id', 'file.format'='orc')")
    with pytest.raises(Exception, match=r"VALUE_NOT_STORABLE.*'t' has the time 1969-12-31 23:59:59.999999"):
        spark.sql("INSERT INTO t VALUES (1, TIMESTAMP '1969-12-31 23:59:59.999999')")
    spark.sql("INSERT INTO t VALUES (1, TIMESTAMP '1969-12-31 23:59:59.999')")
    assert spark.sql("SELECT CAST(t AS STRING) FROM t").collect()[0][0] == "1969-12-31 23:59:59.999"


@pytest.mark.parametrize("keyed", [True, False])
def test_digits_beyond_microseconds_survive_statements(spark: SparkSession, warehouse: Path, *, keyed: bool) -> None:
    fields = fields_of([parse_atomic(t) for t in ("INT", "TIMESTAMP(9)", "INT")])
    table = create(spark, warehouse, fields, ("c0",) if keyed else ())
    stamps = pa.array([1_700_000_000_123_456_789, -1], pa.int64()).cast(pa.timestamp("ns"))
    columns = [pa.array([1, 2], pa.int32()), stamps, pa.array([10, 20], pa.int32())]
    write_arrow(table, pa.table(columns, names=["c0", "c1", "c2"]))
    merge = "MERGE INTO t USING (SELECT 2 AS k, 7 AS v) s ON t.c0 = s.k WHEN"
    changes = ["UPDATE t SET c2 = 11", f"{merge} MATCHED THEN UPDATE SET c2 = v", f"{merge} MATCHED THEN DELETE"]
    if keyed:
        source = "source_sqls => 'CREATE TEMPORARY VIEW s AS SELECT 2 AS k', source_table => 's', target_table => 't'"
        changes.append(
            f"CALL sys.merge_into({source}, merge_condition => 't.c0 = s.k', matched_delete_condition => 'TRUE')"
        )
    else:
        changes.append("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'c2')")
    for statement in changes:
        with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.*column 'c1' has timestamps of more than 6 digits"):
            spark.sql(statement)
    spark.sql("MERGE INTO t USING (SELECT 4 AS k) s ON t.c0 = s.k WHEN NOT MATCHED THEN INSERT (c0) VALUES (k)")
    spark.sql("DELETE FROM t WHERE c1 < TIMESTAMP_NTZ '1970-01-01'")
    found = read_arrow(table).sort_by("c0")
    assert found["c0"].to_pylist() == [1, 4]
    assert found["c1"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789, None]

"""Writes that add columns to their table, and widen its types."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

MERGE = {"write.merge-schema": "true"}
WIDEN = {**MERGE, "write.merge-schema.type-widening": "true"}


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted((tuple(r) for r in spark.sql(sql).collect()), key=str)


def types(spark: SparkSession, table: str) -> dict[str, str]:
    return dict(spark.table(table).dtypes)


def test_writes_by_name_add_columns(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRUCT<a: INT>)")
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 1))")
    new = spark.sql("SELECT 2 AS id, named_struct('a', 2, 'b', 'x') AS s, 2.5D AS d")
    with pytest.raises(Exception, match=r"TOO_MANY_DATA_COLUMNS|CANNOT_FIND_DATA|EXTRA_"):
        new.writeTo("t").append()
    new.writeTo("t").options(**MERGE).append()
    assert types(spark, "t") == {"id": "int", "s": "struct<a:int,b:string>", "d": "double"}
    spark.sql("SELECT 3 AS id, 'e' AS e").write.options(**MERGE).mode("append").saveAsTable("t")
    spark.conf.set("spark.paimon.write.merge-schema", "true")
    spark.sql("INSERT INTO t BY NAME SELECT 4 AS id, true AS f")
    with pytest.raises(Exception, match=r"TOO_MANY_DATA_COLUMNS|not match"):
        spark.sql("INSERT INTO t SELECT 5, NULL, 1D, 'e', true, 'extra'")  # by position: never
    assert rows(spark, "SELECT id, s.b, d, e, f FROM t") == [
        (1, None, None, None, None),
        (2, "x", 2.5, None, None),
        (3, None, None, "e", None),
        (4, None, None, None, True),
    ]


@pytest.mark.parametrize("where", ["table", "session", "statement", "elsewhere"])
def test_the_option_is_a_table_s_too(spark: SparkSession, tmp_path: Path, where: str) -> None:
    stored = "TBLPROPERTIES ('write.merge-schema' = 'true')" if where == "table" else ""
    spark.sql(f"CREATE TABLE t (id INT) {stored}")
    if where in ("session", "elsewhere"):
        spark.conf.set(f"spark.paimon.*.*.{'t' if where == 'session' else 'other'}.write.merge-schema", "true")
    new, hint = spark.sql("SELECT 1 AS id, 2 AS v"), "/*+ OPTIONS('write.merge-schema' = 'true') */"
    if where == "elsewhere":
        with pytest.raises(Exception, match=r"TOO_MANY_DATA_COLUMNS|EXTRA_"):
            new.writeTo("t").append()
        return
    if where == "statement":
        spark.sql(f"INSERT INTO t {hint} BY NAME SELECT 1 AS id, 2 AS v")
    else:
        with pytest.raises(Exception, match=r"TOO_MANY_DATA_COLUMNS|EXTRA_"):
            new.writeTo("t").option("write.merge-schema", "false").append()
        new.writeTo("t").append()
        (tmp_path / "in").mkdir()
        (tmp_path / "in/1.json").write_text('{"id": 2, "w": 3}')
        stream = spark.readStream.schema("id INT, w INT").json(str(tmp_path / "in")).writeStream
        stream = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        stream.toTable("t").awaitTermination()
        spark.sql("INSERT INTO t BY NAME SELECT 3 AS id, 4 AS x")
    left = {} if where == "statement" else {"w": "int", "x": "int"}
    assert types(spark, "t") == {"id": "int", "v": "int", **left}


def test_types_change_as_the_options_say(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT NOT NULL, i INT, n DECIMAL(10, 2), s STRING) TBLPROPERTIES ('primary-key'='k')")
    wide = spark.sql("SELECT 1L AS k, 7L AS i, CAST(1 AS DECIMAL(12, 2)) AS n, 's' AS s")
    wide.writeTo("t").options(**MERGE).append()
    assert types(spark, "t") == {"k": "int", "i": "int", "n": "decimal(10,2)", "s": "string"}
    wide.writeTo("t").options(**WIDEN).append()
    assert types(spark, "t") == {"k": "int", "i": "bigint", "n": "decimal(12,2)", "s": "string"}
    narrow = spark.sql("SELECT 2 AS k, CAST(3 AS SMALLINT) AS i")
    narrow.writeTo("t").options(**WIDEN).append()
    assert types(spark, "t")["i"] == "bigint"
    narrow.writeTo("t").options(**MERGE, **{"write.merge-schema.explicit-cast": "true"}).append()
    assert types(spark, "t")["i"] == "smallint"
    assert rows(spark, "SELECT k, i FROM t") == [(1, 7), (2, 3)]


def test_a_stream_adds_columns(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL) TBLPROPERTIES ('primary-key'='id')")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"id": 1, "v": 2, "rowkind": "+I"}')
    stream = spark.readStream.schema("id INT, v BIGINT, rowkind STRING").json(str(tmp_path / "in"))
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).options(**MERGE)
    writer.trigger(availableNow=True).toTable("t").awaitTermination()
    assert types(spark, "t") == {"id": "int", "v": "bigint"}
    assert rows(spark, "SELECT * FROM t") == [(1, 2)]
    location = spark.sql("SHOW TBLPROPERTIES t ('path')").first()[1]
    by_path = writer.format("paimon").option("checkpointLocation", str(tmp_path / "p"))
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\] The option 'write.merge-schema' does not apply"):
        by_path.start(location)

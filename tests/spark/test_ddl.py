"""DDL through the catalog: databases, tables, properties, system tables."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.query_results import rows


def test_a_created_table_shows_what_was_asked_for(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v STRING COMMENT 'the value', d DECIMAL(10,2), dt STRING) PARTITIONED BY (dt) "
        "COMMENT 'a table' TBLPROPERTIES ('primary-key'='dt,id', 'bucket'='2')"
    )
    fields = {f.name: f for f in spark.table("t").schema}
    assert [f.simpleString() for f in fields.values()] == ["id:int", "v:string", "d:decimal(10,2)", "dt:string"]
    assert not fields["id"].nullable
    assert fields["v"].metadata["comment"] == "the value"
    shown = dict(rows(spark, "SHOW TBLPROPERTIES t"))
    assert shown["bucket"] == "2"
    assert shown["primary-key"] == "dt,id"
    assert [r[1] for r in rows(spark, "SHOW TABLES")] == ["t"]


def test_show_tables_matches_a_pattern(spark: SparkSession) -> None:
    for name in ("orders", "order_lines", "users"):
        spark.sql(f"CREATE TABLE {name} (id INT)")
    shown = spark.sql("SHOW TABLES LIKE 'order*|nosuch'")
    assert [tuple(r)[1:] for r in shown.collect()] == [("order_lines", False), ("orders", False)]
    assert shown.columns == ["namespace", "tableName", "isTemporary"]


def test_names_that_exist_or_do_not(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE t (id INT)")
    spark.sql("CREATE TABLE IF NOT EXISTS t (id INT)")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.sql("SELECT * FROM nosuch")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.sql("SELECT * FROM `t$nosuch`")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.sql("DROP TABLE nosuch")
    spark.sql("DROP TABLE IF EXISTS nosuch")


def test_create_table_like(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE a (id INT, v STRING) PARTITIONED BY (v) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id')")
    spark.sql("CREATE TABLE b LIKE a")
    assert spark.table("b").schema == spark.table("a").schema
    shown = dict(rows(spark, "SHOW TBLPROPERTIES b"))
    assert shown["bucket"] == "2"
    assert shown["path"].endswith("/b")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE b LIKE a")
    spark.sql("CREATE TABLE IF NOT EXISTS b LIKE a")


def test_create_table_like_with_names_of_three_parts(spark: SparkSession) -> None:
    catalog, database = rows(spark, "SELECT current_catalog(), current_database()")[0]
    spark.sql("CREATE TABLE a (id INT) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id')")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {catalog}.`{database}`.b LIKE {catalog}.{database}.a TBLPROPERTIES ('k'='v')"
    )
    shown = dict(rows(spark, "SHOW TBLPROPERTIES b"))
    assert (shown["bucket"], shown["k"]) == ("2", "v")
    with pytest.raises(AnalysisException, match=r"PARSE_SYNTAX_ERROR"):
        spark.sql(f"CREATE TABLE {catalog}.{database}.c LIKE {catalog}.{database}.a AND MORE")


def test_frames_are_saved_as_paimon_tables_without_a_format(spark: SparkSession) -> None:
    frame = spark.range(3)
    frame.write.saveAsTable("a")
    frame.write.mode("overwrite").saveAsTable("a")
    frame.write.partitionBy("id").saveAsTable("p")
    frame.write.format("parquet").saveAsTable("q")
    assert spark.table("a").count() == spark.table("`q$files`").select("record_count").first()[0] == 3
    assert rows(spark, "SHOW PARTITIONS p") == [("id=0",), ("id=1",), ("id=2",)]
    with pytest.raises(AnalysisException, match="provider 'parquet' cannot be created"):
        spark.sql("CREATE TABLE b USING parquet AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match=r"provider 'orc' cannot be created.*\.format\('paimon'\)"):
        frame.write.format("orc").saveAsTable("b")


def test_clustered_by_sets_the_buckets(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE a (id INT, v STRING, d INT) PARTITIONED BY (d) CLUSTERED BY (id, v) INTO 3 BUCKETS")
    spark.range(4).write.bucketBy(2, "id").saveAsTable("b")
    for name, wanted in (("a", ("3", "id,v")), ("b", ("2", "id"))):
        shown = dict(rows(spark, f"SHOW TBLPROPERTIES {name}"))
        assert (shown["bucket"], shown["bucket-key"]) == wanted
    assert rows(spark, "SELECT count(*), count(DISTINCT __paimon_bucket) FROM b") == [(4, 2)]
    with pytest.raises(AnalysisException, match="'bucket' = '3', and its properties 'bucket' = '4'"):
        spark.sql("CREATE TABLE c (id INT) CLUSTERED BY (id) INTO 3 BUCKETS TBLPROPERTIES ('bucket'='4')")
    with pytest.raises(AnalysisException, match="Leave SORTED BY out"):
        spark.sql("CREATE TABLE c (id INT) CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS")
    with pytest.raises(AnalysisException, match="compact"):
        spark.range(4).writeTo("c").clusterBy("id").create()


def test_rename_and_drop(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE a (id INT)")
    spark.sql("INSERT INTO a VALUES (1)")
    spark.sql("ALTER TABLE a RENAME TO b")
    assert rows(spark, "SELECT * FROM b") == [(1,)]
    spark.sql("CREATE TABLE taken (id INT)")
    with pytest.raises(AnalysisException, match="`taken` because it already exists"):
        spark.sql("ALTER TABLE b RENAME TO taken")
    spark.sql("DROP TABLE taken")
    spark.sql("DROP TABLE b")
    assert rows(spark, "SHOW TABLES") == []


def test_properties_are_set_and_unset(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only'='true', 'comment'='other')")
    assert dict(rows(spark, "SELECT * FROM `t$options`"))["write-only"] == "true"
    spark.sql("ALTER TABLE t UNSET TBLPROPERTIES ('write-only')")
    assert "write-only" not in dict(rows(spark, "SELECT * FROM `t$options`"))


def test_an_unknown_option_names_the_nearest(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="bucket-key"):
        spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('bucket-kei'='id')")


def test_columns_change(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT)")
    spark.sql("INSERT INTO t VALUES (1, 10)")
    spark.sql("ALTER TABLE t ADD COLUMN w STRING AFTER id")
    spark.sql("ALTER TABLE t RENAME COLUMN v TO v2")
    spark.sql("ALTER TABLE t ALTER COLUMN v2 TYPE BIGINT")
    spark.sql("INSERT INTO t VALUES (2, 'x', 20000000000)")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, None, 10), (2, "x", 20000000000)]
    assert rows(spark, "SELECT id FROM t WHERE w IS NULL") == [(1,)]


def test_collations_are_refused(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="collation"):
        spark.sql("CREATE TABLE t (v STRING COLLATE UTF8_LCASE)")
    spark.sql("CREATE TABLE t (v STRING)")
    with pytest.raises(AnalysisException, match="collation"):
        spark.sql("ALTER TABLE t ADD COLUMN w ARRAY<STRING COLLATE UNICODE>")
    assert spark.table("t").columns == ["v"]


def test_system_tables(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert rows(spark, "SELECT snapshot_id, commit_kind, total_record_count FROM `t$snapshots`") == [(1, "APPEND", 2)]
    assert rows(spark, "SELECT bucket, record_count FROM `t$files` WHERE level = 0") == [(0, 2)]
    assert rows(spark, "SELECT count(*) FROM `t$files`") == [(1,)]
    assert rows(spark, "SELECT rowkind, id FROM `t$audit_log` ORDER BY id") == [("+I", 1), ("+I", 2)]
    assert rows(spark, "SELECT * FROM `t$ro`") == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM `t$files`",
        "DELETE FROM `t$files` WHERE level = 0",
        "TRUNCATE TABLE `t$ro`",
        "TRUNCATE TABLE `t$snapshots`",
        "INSERT INTO `t$ro` VALUES (2)",
        "INSERT OVERWRITE `t$ro` VALUES (2)",
        "UPDATE `t$ro` SET id = 2",
        "DELETE FROM paimon.sys.all_table_options",
    ],
)
def test_changing_a_system_table_leaves_the_table_alone(spark: SparkSession, statement: str) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE|is not supported"):
        spark.sql(statement)
    assert rows(spark, "SELECT * FROM t") == [(1,)]


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key'='a b')"])
def test_any_name_of_a_column_can_be_written_and_read(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (`a b` INT, `c.d` STRING, `e``f` INT, `g.h` STRUCT<`i.j`: INT>) {properties}")
    spark.sql("INSERT INTO t VALUES (1, 'x', 2, named_struct('i.j', 3)), (4, 'y', 5, NULL)")
    spark.sql("UPDATE t SET `c.d` = 'z' WHERE `e``f` = 2")
    spark.sql("DELETE FROM t WHERE `c.d` = 'y'")
    spark.sql("CREATE TABLE u AS SELECT * FROM t")
    assert rows(spark, "SELECT `a b`, `c.d`, `e``f`, `g.h`.`i.j` FROM t WHERE `c.d` = 'z'") == [(1, "z", 2, 3)]
    assert rows(spark, "SELECT `a b`, `c.d`, `e``f` FROM u") == [(1, "z", 2)]


def test_what_show_create_table_prints_runs(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING DEFAULT 'x') PARTITIONED BY (v) TBLPROPERTIES ('bucket'='-1')")
    statement = rows(spark, "SHOW CREATE TABLE t")[0][0]
    assert "LOCATION" in statement
    spark.sql("DROP TABLE t")
    spark.sql(statement)
    assert rows(spark, "SHOW CREATE TABLE t")[0][0] == statement
    for place in ("LOCATION '/tmp/elsewhere'", "TBLPROPERTIES ('path'='/tmp/elsewhere')"):
        with pytest.raises(AnalysisException, match="its own location"):
            spark.sql(f"CREATE TABLE other (id INT) {place}")

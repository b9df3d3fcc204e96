"""Spark reads literals and names as they were before they were quoted."""

from __future__ import annotations

from pyspark.sql import SparkSession

from paimon_spark.spec.quoted_text import quoted_name, string_literal

CHARACTERS = [chr(c) for c in (*range(0x180), 0x200B, 0x2028, 0x2029, 0xFFFD, 0x1F600)]
TEXTS = [
    "",
    *CHARACTERS,
    *(f"\\{c}" for c in CHARACTERS),
    *(f"'{c}'" for c in CHARACTERS),
    "\\u0041\\101\\\\n''\"`",
    "-- /* ; */\n\r\n\t\\\n'",
]


def test_spark_reads_a_literal_as_its_text(spark: SparkSession) -> None:
    for quote in "'\"":
        literals = ", ".join(string_literal(text, quote) for text in TEXTS)
        assert list(spark.sql(f"SELECT array({literals})").collect()[0][0]) == TEXTS


def test_spark_reads_a_quoted_name_as_the_name(spark: SparkSession) -> None:
    names = ["a.b", "`", "``", "a`b", "'", '"', "\\", "\\`", "-- x", "ü 😀", "SELECT"]
    columns = ", ".join(f"1 AS {quoted_name(name)}" for name in names)
    frame = spark.sql(f"SELECT {columns}")
    assert frame.columns == names
    assert frame.select(*map(quoted_name, names)).columns == names

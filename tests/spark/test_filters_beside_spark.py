"""Filters of the Python API are true of the rows of which they are true in Spark."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import ArgumentError
from tests.query_results import rows
from tests.variants import mostly_slow

_FILTERS = 250
_VALUES = {
    "i INT": ("0", "1", "-1", "5", "2147483647", "-2147483648"),
    "l BIGINT": ("0", "1", "-1", "9223372036854775807"),
    "ti TINYINT": ("0", "1", "-1", "127"),
    "f FLOAT": ("0", "1.5", "0.1F", "-0.0", "CAST('nan' AS FLOAT)", "CAST('infinity' AS FLOAT)", "-2.25"),
    "d DOUBLE": ("0", "1.5", "0.1", "-0.0", "CAST('nan' AS DOUBLE)", "CAST('-infinity' AS DOUBLE)", "3.7"),
    "e DECIMAL(7, 2)": ("0", "1.50", "-1.50", "99999.99", "0.10"),
    "s STRING": ("''", "'a'", "'ab'", "'A'", "'a%b'", "'a_b'", "'ä'", "'1'", "'1.5'", "'2024-01-01'"),
    "bo BOOLEAN": ("true", "false"),
    "da DATE": ("DATE '2024-01-01'", "DATE '1970-01-01'", "DATE '1969-12-31'"),
    "ts TIMESTAMP": ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '1969-12-31 23:59:59.5'"),
    "ntz TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-01-01 12:30:00.123456'"),
    "bi BINARY": ("X''", "X'00'", "X'61'", "X'FF'"),
}
_COLUMNS = {c.split()[0]: values for c, values in _VALUES.items()}
_NUMBERS = ("2", "0.1F", "1.5D", "1.5BD", "1e0", "128", "3000000000", "'1'", "CAST(1.5 AS INT)", "CAST('1' AS INT)")
_OTHERS = {
    **dict.fromkeys(("i", "l", "ti", "f", "d", "e"), _NUMBERS),
    "da": ("'2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:01'"),
    "ts": ("'2024-01-01'", "DATE '2024-01-01'"),
    "ntz": ("'2024-01-01 12:30:00.123456'", "DATE '2024-01-01'"),
}
_PATTERNS = ("'a%'", "'%a'", "'%b%'", "'a_b'", "'_'", r"'a\\%b'", "''", "'%'")
_TRUTHS = ("bo", "NOT bo", "bo IS TRUE", "bo IS NOT TRUE", "bo IS FALSE", "bo IS NOT FALSE")


class _Filters:
    """Draws filters."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def condition(self, depth: int) -> str:
        choose = self.random.choice
        if not depth or self.random.random() < 0.4:
            return self._leaf()
        if self.random.random() < 0.3:
            return f"NOT ({self.condition(depth - 1)})"
        return f"({self.condition(depth - 1)} {choose(('AND', 'OR'))} {self.condition(depth - 1)})"

    def _leaf(self) -> str:
        choose = self.random.choice
        c, negation = choose(tuple(_COLUMNS)), choose(("", "NOT "))
        equal = choose(("=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        return choose(
            (
                f"{c} {equal} {self._value(c)}",
                f"{c} {choose(('=', '<', '>='))} {self._value(c)}",
                f"{c} {negation}IN ({self._value(c)}, {self._value(c)})",
                f"{c} {negation}BETWEEN {self._value(c)} AND {self._value(c)}",
                f"{c} IS {negation}NULL",
                f"s {negation}LIKE {choose(_PATTERNS)}",
                choose(_TRUTHS),
            )
        )

    def _value(self, column: str) -> str:
        return self.random.choice(_COLUMNS[column] + _OTHERS.get(column, ()))


@pytest.mark.parametrize("file_format", mostly_slow(["parquet", "orc"], "parquet"))
def test_filters_find_what_spark_finds(spark: SparkSession, warehouse: Path, file_format: str) -> None:
    drawn = _Filters(len(file_format))
    spark.sql(
        f"CREATE TABLE t (k INT, {', '.join(_VALUES)}) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', "
        f"'file.format' = '{file_format}')"
    )
    for first in (0, 20, 40):
        listed = (
            ", ".join(
                [
                    str(k),
                    *("NULL" if drawn.random.random() < 0.2 else drawn.random.choice(v) for v in _COLUMNS.values()),
                ]
            )
            for k in range(first, first + 30)
        )
        spark.sql(f"INSERT INTO t VALUES ({'), ('.join(listed)})")
    table = paimon_spark.connect(warehouse).table(f"{rows(spark, 'SELECT current_database()')[0][0]}.t")
    found: dict[str, list[int]] = {}
    for condition in dict.fromkeys(drawn.condition(2) for _ in range(_FILTERS)):
        with suppress(ArgumentError):
            found[condition] = sorted(table.to_arrow("k", filter=condition).column(0).to_pylist())
    assert len(found) > _FILTERS * 0.7
    left = iter(found)
    while several := list(islice(left, 50)):
        values = spark.table("t").selectExpr("k", *several).orderBy("k").collect()
        for place, condition in enumerate(several, 1):
            assert found[condition] == [row[0] for row in values if row[place]], condition

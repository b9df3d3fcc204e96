"""INSERT histories of tables with `upsert-key`: by Paimon, by this project, and by both in turn, in one Spark session.

``python -m tests.peers.upsert_histories JAR [SEED]`` runs one history for each kind of table, and fails at the first
difference between the rows of the three.
"""

from __future__ import annotations

import random
import sys
import tempfile
from itertools import count

import pyarrow as pa
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import connect

Row = tuple[int | None, str | None, int, str]
KINDS = {
    "plain": "",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "tracked": "'row-tracking.enabled' = 'true'",
    "evolving": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
    "buckets_of_key": "'bucket' = '2', 'bucket-key' = 'k'",
    "buckets_of_value": "'bucket' = '2', 'bucket-key' = 'v'",
    "buckets_and_vectors": "'bucket' = '2', 'bucket-key' = 'v', 'deletion-vectors.enabled' = 'true'",
    "partitioned_by_value": "PARTITIONED BY (v)",
    "partitioned_by_key": "PARTITIONED BY (j)",
}
SCHEMA = pa.schema([("k", pa.int32()), ("j", pa.string()), ("s", pa.int64()), ("v", pa.string())])
STEPS = 4
BIG = {"spark.paimon.write.local-max-rows": "0"}


def both_catalogs(jar: str, warehouse: str) -> SparkSession:
    """Return a session with this project's catalog `here` and Paimon's `there` over one warehouse."""
    builder = SparkSession.builder.appName("upserts").master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.here.warehouse": warehouse,
        "spark.sql.catalog.there": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.there.warehouse": warehouse,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = paimon_spark.configure(builder, catalog="here")
    given = builder._options
    builder.config("spark.jars", f"{given['spark.jars']},{jar}")
    theirs = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
    return builder.config("spark.sql.extensions", f"{given['spark.sql.extensions']},{theirs}").getOrCreate()


def batch(rng: random.Random, numbers: count[int], *, ordered: bool) -> list[Row]:
    """Return the rows of one INSERT: without a sequence, each key at most once; else each sequence once in all."""
    keys: list[tuple[int | None, str | None]] = [(k, j) for k in (None, 1, 2, 3) for j in (None, "a", "b")]
    chosen = rng.choices(keys, k=8) if ordered else rng.sample(keys, 5)
    order = rng.sample([next(numbers) for _ in chosen], len(chosen))
    late = rng.random() < 0.4
    return [
        (k, j, s - (13 if late else 0) + (0 if s % 2 else 1000), rng.choice("xyz"))
        for (k, j), s in zip(chosen, order, strict=True)
    ]


class History:
    """One kind of table, thrice."""

    def __init__(self, spark: SparkSession, warehouse: str, name: str, kind: str, *, ordered: bool) -> None:
        self.spark = spark
        self.catalog = connect(warehouse)
        self.name = name
        self.ordered = ordered
        partitions, options = (kind, "") if kind.startswith("PARTITIONED") else ("", kind)
        order = "'sequence.field' = 's'" if ordered else ""
        given = ", ".join(text for text in ("'upsert-key' = 'k,j'", order, options) if text)
        for who in ("java", "own", "mixed"):
            spark.sql(
                f"CREATE TABLE {'there' if who == 'java' else 'here'}.db.{name}_{who} "
                f"(k INT, j STRING, s BIGINT, v STRING) {partitions} TBLPROPERTIES ({given})"
            )

    def insert(self, catalog: str, who: str, rows: list[Row]) -> None:
        """Insert rows by SQL."""
        values = ", ".join(f"({', '.join(literal(v) for v in row)})" for row in rows)
        self.spark.sql(f"INSERT INTO {catalog}.db.{self.name}_{who} VALUES {values}")

    def insert_big(self, who: str, rows: list[Row]) -> None:
        """Insert rows by a Spark job."""
        for key, value in BIG.items():
            self.spark.conf.set(key, value)
        self.insert("here", who, rows)
        for key in BIG:
            self.spark.conf.unset(key)

    def append(self, rows: list[Row]) -> None:
        """Append rows by the Python API."""
        table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
        self.catalog.table(f"db.{self.name}_mixed").append(table)

    def rows(self, catalog: str, who: str) -> list[str]:
        """Return the rows as one side reads them."""
        self.spark.sql(f"REFRESH TABLE {catalog}.db.{self.name}_{who}")
        found = self.spark.sql(f"SELECT k, j, s, v FROM {catalog}.db.{self.name}_{who}").collect()
        return sorted(str(tuple(row)) for row in found)

    def run(self, rng: random.Random) -> None:
        """Run a random history.

        Raises:
            AssertionError: the rows differ.
        """
        numbers = count()
        for step in range(STEPS):
            rows = batch(rng, numbers, ordered=self.ordered)
            self.insert("there", "java", rows)
            (self.insert_big if step % 2 else lambda who, rows: self.insert("here", who, rows))("own", rows)
            writer = rng.choice(("java", "small", "big", "api"))
            if writer == "api":
                self.append(rows)
            elif writer == "big":
                self.insert_big("mixed", rows)
            else:
                self.insert("there" if writer == "java" else "here", "mixed", rows)
            wanted = self.rows("there", "java")
            for catalog, who in (("here", "own"), ("there", "mixed"), ("here", "mixed"))[step % 2 :]:
                found = self.rows(catalog, who)
                assert found == wanted, f"{self.name}, step {step} by {writer}: {catalog} {who} {found}, not {wanted}"


def literal(value: int | str | None) -> str:
    """Return a value in SQL."""
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def main(jar: str, seed: str = "1") -> None:
    """Run one history for each kind of table."""
    with tempfile.TemporaryDirectory() as warehouse:
        spark = both_catalogs(jar, warehouse)
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql("CREATE DATABASE here.db")
        for ordered in (True, False):
            for name, kind in KINDS.items():
                history = History(
                    spark, warehouse, f"{name}_{'ordered' if ordered else 'plain'}", kind, ordered=ordered
                )
                history.run(random.Random(f"{seed} {name} {ordered}"))
                print(f"same rows: {history.name}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

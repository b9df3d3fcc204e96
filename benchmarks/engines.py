"""The compared engines: their sessions, and the workload in the SQL of each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

import paimon_spark
from benchmarks.workload import BUCKETS, INSERT, MERGE, SCHEMA

SESSION: Mapping[str, str] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""The settings of every session."""

PEERS = ("paimon-spark", "paimon")
"""The engines that have the same kinds of tables, by name."""
ICEBERG = "1.12.0"
DELTA = "4.4.0"
PAIMON_JAR_RELEASE = "0.9.0"


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine; in its statements `{t}` is the table, `{source}` the rows to write, `{final}` the final rows.

    `python_path` has packages of its session besides the installed ones. `marking_layout` is that of a second table,
    in which a DELETE marks rows in deletion vectors; engines without it have no second table.
    """

    name: str
    label: str
    database: str
    layout: str
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    python: str = sys.executable
    python_path: str = ""
    upsert: str = MERGE
    merge: str | None = MERGE
    compact: tuple[str, ...] = ()
    merges_on_read: bool = True
    load_version: str | None = None
    deletes: bool = True
    small_layout: str = ""
    marking_layout: str = ""

    @property
    def create(self) -> str:
        """Return the statement that creates the table."""
        return f"CREATE TABLE {{t}} ({SCHEMA}) {self.layout}"

    @property
    def create_marking(self) -> str:
        """Return the statement that creates a table in which a DELETE marks rows."""
        return f"CREATE TABLE {{t}} ({SCHEMA}) {self.marking_layout}"

    @property
    def create_other(self) -> str:
        """Return the statement that creates the second table, with the same layout."""
        return f"CREATE TABLE {{u}} (id BIGINT NOT NULL, weight INT) {self.layout}"

    def session(self, warehouse: Path) -> dict[str, str]:
        """Return the settings of the engine's session, its tables below `warehouse`."""
        conf = {k: v.format(warehouse=warehouse) for k, v in self.conf.items()}
        if self.packages:
            conf["spark.jars.packages"] = ",".join(self.packages)
        return {**SESSION, "spark.sql.warehouse.dir": str(warehouse / "spark"), **conf}


def peer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the release of Paimon."""
    parser.add_argument("--peer-jar", default=os.environ.get("PEER_JAR") or None, help="a Paimon jar for this Spark")
    parser.add_argument(
        "--peer-python", default=".venv-3.5/bin/python", help="a Python with PySpark 3.5, for Paimon's release"
    )


def spark_minor() -> str:
    """Return the release of Spark that runs here, as in `4.1`."""
    return ".".join(pyspark.__version__.split(".")[:2])


_SMALL_KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
_KEYED = f"TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '{BUCKETS}', 'write-only' = 'true')"
_MARKING = (
    f"TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '{BUCKETS}', 'deletion-vectors.enabled' = 'true', "
    "'deletion-vectors.mark-deletes' = 'true')"
)


def ours() -> Engine:
    """Return this project."""
    return Engine(
        name="paimon-spark",
        label=f"paimon-spark {paimon_spark.__version__}",
        database="paimon.bench",
        conf={
            "spark.jars": str(paimon_spark.jar_path()),
            "spark.sql.extensions": "paimon.spark.SessionExtension",
            "spark.sql.catalog.paimon": "paimon.spark.Catalog",
            "spark.sql.catalog.paimon.warehouse": "{warehouse}/paimon",
            "spark.paimon.python": sys.executable,
        },
        python_path=str(Path(paimon_spark.__file__).parents[1]),
        layout=_KEYED,
        small_layout=_SMALL_KEYED,
        marking_layout=_MARKING,
        upsert=INSERT,
        compact=("CALL paimon.sys.compact(table => '{name}')",),
        load_version="1",
    )


def paimon(jar: str | None, python: str) -> Engine:
    """Return Paimon's own module: a jar for this Spark, or the released one on a Spark of its own (`python`)."""
    label = f"Paimon ({Path(jar).name})" if jar else f"Paimon {PAIMON_JAR_RELEASE} on Spark 3.5"
    source = {"spark.jars": jar} if jar else {}
    return Engine(
        name="paimon",
        label=label,
        database="paimon.bench",
        python=sys.executable if jar else python,
        packages=() if jar else (f"org.apache.paimon:paimon-spark-3.5:{PAIMON_JAR_RELEASE}",),
        conf={
            **source,
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": "{warehouse}/paimon",
        },
        layout=_KEYED,
        small_layout=_SMALL_KEYED,
        upsert=INSERT,
        compact=("CALL paimon.sys.compact(table => '{name}')",),
        load_version="1",
    )


def iceberg() -> Engine:
    """Return Iceberg: format version 2, rows deleted merge-on-read."""
    modes = "".join(f", 'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
    bucketed = f"USING iceberg PARTITIONED BY (bucket({BUCKETS}, id)) TBLPROPERTIES ('format-version' = '2'{modes})"
    return Engine(
        name="iceberg",
        label=f"Iceberg {ICEBERG}",
        database="ice.bench",
        packages=(f"org.apache.iceberg:iceberg-spark-runtime-{spark_minor()}_2.13:{ICEBERG}",),
        conf={
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": "{warehouse}/iceberg",
            "spark.sql.sources.v2.bucketing.enabled": "true",
        },
        layout=bucketed,
        small_layout=f"USING iceberg TBLPROPERTIES ('format-version' = '2'{modes})",
        compact=("CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",),
        load_version="SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at LIMIT 1",
    )


def delta() -> Engine:
    """Return Delta with deletion vectors; it has no buckets."""
    vectors = "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    return Engine(
        name="delta",
        label=f"Delta {DELTA}",
        database="spark_catalog.bench",
        packages=(f"io.delta:delta-spark_{spark_minor()}_2.13:{DELTA}",),
        conf={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        layout=vectors,
        small_layout=vectors,
        compact=("REORG TABLE {t} APPLY (PURGE)", "OPTIMIZE {t}"),
        load_version="1",
    )


def parquet() -> Engine:
    """Return plain Parquet by Spark, the lower bound: it only appends, and its compaction writes the final rows."""
    return Engine(
        name="parquet",
        label="plain Parquet (appends only)",
        database="spark_catalog.bench",
        layout="USING parquet",
        upsert=INSERT,
        merge=None,
        compact=("INSERT OVERWRITE {t} SELECT * FROM {final}",),
        merges_on_read=False,
        deletes=False,
    )

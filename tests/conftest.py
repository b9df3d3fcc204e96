"""What all tests share: marks by directory, one Spark session, the places of things outside the tree."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paimon_spark.bridge.java import find_java
from paimon_spark.cli.class_archive import with_archive
from tests.reference_data import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
MARKS = {"spark": "spark", "sql": "spark", "end_to_end": "e2e", "peers": "peer"}
SESSION = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.showConsoleProgress": "false",
    "spark.paimon.read.local-max-bytes": "0",
}
"""Tables of tests are small: most of them are read as large ones are. `test_local_read.py` sets the default."""
if "SPARK_SUBMIT_OPTS" not in os.environ:
    # The JVMs of tests run most code only a few times: compiling it with all optimizations takes longer than running it.
    fast_start = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    os.environ.update(with_archive(fast_start, java) if (java := find_java()) else fast_start)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the directory they live in."""
    for item in items:
        place = item.path.relative_to(ROOT / "tests").parts[0]
        if place in MARKS:
            item.add_marker(MARKS[place])


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of the shared session."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark_app(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark application of this test process, with the catalog `paimon`."""
    from pyspark.sql import SparkSession

    import paimon_spark
    from paimon_spark.cli.env import shipped

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for functions of tests, which Spark 4.2 runs with Arrow
    builder = SparkSession.builder.appName("paimon-spark tests")
    log4j = shipped("conf/log4j2.properties").as_uri()
    session = SESSION | {
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("session").as_uri(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.sql.catalog.paimon.warehouse": str(warehouse),
    }
    for key, value in session.items():
        builder = builder.config(key, value)
    spark = paimon_spark.configure(builder, catalog="paimon").getOrCreate()
    yield spark
    spark.stop()


@pytest.fixture
def spark(spark_app: SparkSession) -> Iterator[SparkSession]:
    """A separate session, in a fresh database of the catalog `paimon`, which is dropped afterwards."""
    session = spark_app.newSession()
    database = f"t_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE paimon.{database}")
    session.sql(f"USE paimon.{database}")
    yield session
    session.sql("USE spark_catalog.default")
    session.sql(f"DROP DATABASE IF EXISTS paimon.{database} CASCADE")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Reference data kept beside the source tree, or in the directory `PAIMON_SPARK_SHARED`."""
    if not SHARED.is_dir():
        pytest.skip(f"no reference data in {SHARED}")
    return SHARED

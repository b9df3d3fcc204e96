"""A table of Paimon whose files are sorted by other columns than the key, through SQL."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows

SAMPLE = Path(__file__).resolve().parents[1] / "tables/pk_clustered.tar.gz"


@pytest.fixture
def clustered(spark: SparkSession, warehouse: Path) -> SparkSession:
    """The table pk_clustered (id, city, n)."""
    with tarfile.open(SAMPLE) as archive:
        archive.extractall(warehouse / f"{spark.catalog.currentDatabase()}.db", filter="data")
    return spark


def test_queries(clustered: SparkSession) -> None:
    table = "pk_clustered"
    ids = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]
    for local in ("0", "1 gb"):
        clustered.conf.set("spark.paimon.read.local-max-bytes", local)
        try:
            assert [r[0] for r in rows(clustered, f"SELECT * FROM {table} ORDER BY id")] == ids
            assert rows(clustered, f"SELECT id FROM {table} WHERE city = 'Aalen' ORDER BY 1") == [(3,), (4,)]
            assert rows(clustered, f"SELECT city FROM {table} WHERE id = 8") == [("Ahaus",)]
            assert rows(clustered, f"SELECT count(*), min(id), max(n) FROM {table}") == [(10, 1, 8)]
            assert rows(clustered, f"SELECT n FROM {table} ORDER BY n DESC LIMIT 2") == [(8,), (7,)]
        finally:
            clustered.conf.unset("spark.paimon.read.local-max-bytes")
    joined = f"SELECT /*+ MERGE(b) */ a.id FROM {table} a JOIN {table} b ON a.id = b.id ORDER BY 1"
    assert [r[0] for r in rows(clustered, joined)] == ids
    assert rows(clustered, f"SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id)") == [(10,)]
    assert rows(clustered, f"SELECT count(*) FROM {table} VERSION AS OF 2") == [(6,)]
    assert rows(clustered, f"SELECT id FROM `{table}$audit_log` WHERE rowkind = '-D'") == [(9,)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO pk_clustered VALUES (1, 'a', 1)",
        "DELETE FROM pk_clustered WHERE id = 1",
        "UPDATE pk_clustered SET n = 1",
        "CALL sys.compact('pk_clustered')",
        "CALL sys.copy('pk_clustered', 'other')",
        "CREATE TABLE other TBLPROPERTIES ('primary-key' = 'id', 'pk-clustering-override' = 'true', "
        "'clustering.columns' = 'n', 'deletion-vectors.enabled' = 'true') AS SELECT 1 AS id, 2 AS n",
    ],
)
def test_writing_is_refused(clustered: SparkSession, statement: str) -> None:
    with pytest.raises(PySparkException, match=r"'pk-clustering-override' = 'true' cannot be (written|created)"):
        clustered.sql(statement)
    assert rows(clustered, "SELECT count(*) FROM pk_clustered") == [(10,)]

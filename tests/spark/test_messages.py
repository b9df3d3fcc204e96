"""What a failed statement says: one short message with a code, and the way out."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession


def said(spark: SparkSession, sql: str, kind: type[Exception] = PySparkException) -> str:
    """Return the message of a statement that fails."""
    with pytest.raises(kind) as caught:
        spark.sql(sql)
    return str(caught.value)


def test_a_paimon_table_in_the_session_catalog_is_refused_with_the_catalogs_that_there_are(spark: SparkSession) -> None:
    spark.sql("USE spark_catalog.default")
    message = said(spark, "CREATE TABLE lost (id INT) USING paimon", AnalysisException)
    assert "Run USE paimon first, or name the catalog, as in paimon.default.lost." in message
    with pytest.raises(AnalysisException, match="USE paimon"):
        spark.range(1).write.format("paimon").saveAsTable("lost")
    with pytest.raises(AnalysisException, match="needs a path"):
        spark.read.format("paimon").load()
    assert not spark.catalog.tableExists("lost")

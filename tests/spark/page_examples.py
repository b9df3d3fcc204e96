"""The SQL examples of a page of the docs: statements, and the answer of the last one as comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

DOCS = Path(__file__).resolve().parents[2] / "docs"
_EXAMPLE = re.compile(r"```sql\n((?:(?!-- ).+\n)+)((?:-- .+\n)+)```")


def run_examples(spark: SparkSession, page: str) -> int:
    """Run the examples of a page and compare their answers; return how many there are."""
    examples = list(_examples(page))
    for statements, query, rows in examples:
        for statement in statements:
            spark.sql(statement)
        found = _as_text(spark.sql(query))
        assert_df_equality(found, spark.createDataFrame(rows, found.schema), ignore_nullable=True)
    return len(examples)


def _examples(page: str) -> Iterator[tuple[list[str], str, list[list[str]]]]:
    for script, printed in _EXAMPLE.findall((DOCS / page).read_text(encoding="utf-8")):
        *statements, query = [s for s in script.split(";") if s.strip()]
        yield (
            statements,
            query,
            [[c.strip() for c in line.removeprefix("-- ").split("|")] for line in printed.splitlines()],
        )


def _as_text(frame: DataFrame) -> DataFrame:
    """Return a frame as it is printed."""
    return frame.select(*(f.coalesce(f.col(c).cast("string"), f.lit("NULL")).alias(c) for c in frame.columns))

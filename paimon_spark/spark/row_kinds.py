"""Row kinds of input rows: a column of texts is converted to the kinds of the writers."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.quoted_text import quoted_name


def with_row_kinds(table: Table, frame: DataFrame) -> DataFrame:
    """Return the rows of a table with their kinds as numbers, if a column of texts follows the table's columns."""
    columns = [f.col(quoted_name(name)) for name in frame.columns]
    if len(columns) == len(table.schema.fields):
        return frame
    return frame.select(*columns[:-1], _number_of(frame.columns[-1]).alias(ROW_KIND))


def _number_of(name: str) -> Column:
    kind = f.col(quoted_name(name))
    given = f.coalesce(f.concat(f.lit("'"), kind, f.lit("'")), f.lit("NULL"))
    wrong = f.concat(
        f.lit(f"[INVALID_ARGUMENT] A row has {name} = "),
        given,
        f.lit(", which is not the kind of a row. The kinds are +I, -U, +U and -D."),
    )
    number = f.raise_error(wrong).cast("tinyint")
    return reduce(
        lambda rest, k: f.when(kind == k.short, f.lit(int(k)).cast("tinyint")).otherwise(rest), RowKind, number
    )

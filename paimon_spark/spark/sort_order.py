"""The sort order of rows in Spark: columns, or the place of each row on a space-filling curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StructType

from paimon_spark.core.columns import reserved
from paimon_spark.core.table import Table
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import add_curve
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.quoted_text import quoted_name

_CURVE = reserved("_curve_")


def in_order(rows: DataFrame, table: Table, order: Order, columns: Sequence[str], ranges: int | None) -> DataFrame:
    """Return the rows with the columns of the table, in ranges of its partitions and the order, and sorted in each.

    Rows are transferred to Python once if the order is a curve.

    Args:
        rows: rows with the columns of the table.
        table: the table.
        order: the order.
        columns: the columns to sort by.
        ranges: number of ranges; None leaves it to Spark.
    """
    frame, places = _placed(rows, table, order, columns)
    keys = [*map(_column, table.schema.partition_keys), *places]
    spread = frame.repartitionByRange(*keys) if ranges is None else frame.repartitionByRange(ranges, *keys)
    return spread.sortWithinPartitions(*keys).select(*map(_column, table.schema.field_names))


def _placed(rows: DataFrame, table: Table, order: Order, columns: Sequence[str]) -> tuple[DataFrame, list[Column]]:
    """Return the rows with their sort columns, and these columns."""
    if order is Order.ORDER:
        return rows, [_column(name) for name in columns]
    text_bytes = table.options.number("zorder.var-length-contribution")
    schema = StructType([*rows.schema.fields]).add(_CURVE, BinaryType())
    curve = partial(add_curve, order.value, tuple(columns), text_bytes, _CURVE)
    return map_in_arrow(rows, curve, schema), [f.col(_CURVE)]


def _column(name: str) -> Column:
    return f.col(quoted_name(name))

"""A value into a column as an INSERT assigns it: what type may go where, and what is too long or too large."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spark.types import MAX_VARCHAR, plain_struct
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, type_to_json


def column_type(field: DataField) -> DataType:
    """Return the type in which Spark holds the values of a column."""
    return StructType.fromJson(plain_struct([field]))[0].dataType


def check_assignable(given: DataType, field: DataField, what: str, table: str) -> None:
    """Refuse a value whose type Spark's own INSERT would not store in the column.

    Raises:
        ArgumentError: names `what` gives the value.
    """
    wanted = column_type(field)
    if given == wanted or _can_store(given, wanted):
        return
    raise ArgumentError(
        f"The {what} of merge_into gives the column '{field.name}' of table {table}, which is "
        f"{type_to_json(field.type)}, a value of type {given.simpleString()}.",
        hint="Cast the value.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


def _can_store(given: DataType, wanted: DataType) -> bool:
    context = SparkContext._active_spark_context
    jvm: Any = context._jvm if context is not None else None
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canANSIStoreAssign(parse(given.json()), parse(wanted.json())))


def assigned(name: str, given: DataType, field: DataField) -> Column:
    """Return the column `name` as a value of `field`; built under ANSI rules, a value that does not fit is an error."""
    wanted = column_type(field)
    value = f.col(name) if given == wanted else f.col(name).cast(wanted)
    root = field.type.root if isinstance(field.type, AtomicType) else None
    if root is TypeRoot.CHAR or (root is TypeRoot.VARCHAR and field.type.length != MAX_VARCHAR):  # type: ignore[union-attr]
        return _of_length(value, field)
    return value


def _of_length(value: Column, field: DataField) -> Column:
    """Return a text that is not longer than its column, CHAR padded; blanks at its end may be cut off."""
    limit = int(field.type.length or 0)  # type: ignore[union-attr]
    full = isinstance(field.type, AtomicType) and field.type.root is TypeRoot.CHAR
    short = f.rpad(value, limit, " ") if full else value
    message = f"[{ErrorKind.TYPE_MISMATCH}] A value for the column '{field.name}' is longer than {limit} characters."
    cut = f.when(f.length(f.rtrim(value)) <= limit, f.substring(value, 1, limit)).otherwise(
        f.raise_error(f.lit(message)).cast("string")
    )
    return f.when(f.length(value) <= limit, short).when(value.isNotNull(), cut)

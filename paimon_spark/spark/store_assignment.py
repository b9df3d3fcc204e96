"""Assignment of values to columns by the rules of INSERT: types, and checks of length and range."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from paimon_spark.core.char_values import is_char
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spark.types import MAX_VARCHAR, plain_struct
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, type_to_json


def column_type(field: DataField) -> DataType:
    """Return the type in which Spark holds the values of a column."""
    return StructType.fromJson(plain_struct([field]))[0].dataType


def check_assignable(given: DataType, field: DataField, what: str, table: str) -> None:
    """Reject a value whose type Spark's own INSERT would not store in the column.

    Raises:
        ArgumentError: the type does not fit; the message names `what`.
    """
    wanted = column_type(field)
    if given == wanted or can_store(given, wanted):
        return
    raise ArgumentError(
        f"The {what} gives the column '{field.name}' of table {table}, which is "
        f"{type_to_json(field.type)}, a value of type {given.simpleString()}.",
        hint="Cast the value.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


def can_store(given: DataType, wanted: DataType) -> bool:
    """Return whether Spark's INSERT stores values of one type as another."""
    context = SparkContext._active_spark_context
    jvm: Any = context._jvm if context is not None else None
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canANSIStoreAssign(parse(given.json()), parse(wanted.json())))


def assigned(name: str, given: DataType, field: DataField) -> Column:
    """Return the column `name` as a value of `field`; built under ANSI rules, a value that does not fit is an error."""
    wanted = column_type(field)
    value = f.col(name) if given == wanted else f.col(name).cast(wanted)
    if not isinstance(field.type, AtomicType) or not is_limited(field.type):
        return value
    message = (
        f"[{ErrorKind.TYPE_MISMATCH}] A value for the column '{field.name}' is longer than "
        f"{field.type.length} characters."
    )
    refused = f.raise_error(f.lit(message)).cast("string")
    return f.coalesce(fitted(value, field.type), f.when(value.isNotNull(), refused))


def is_limited(t: AtomicType) -> bool:
    """Return whether a type is of texts with a length."""
    return t.root is TypeRoot.CHAR or (t.root is TypeRoot.VARCHAR and t.length != MAX_VARCHAR)


def padded(value: Column, field: DataField) -> Column:
    """Return the value of a column with the blanks that fill its length, if its type is CHAR."""
    if not is_char(field.type):
        return value
    length = field.type.length or 1
    return f.when(f.length(value) < length, f.rpad(value, length, " ")).otherwise(value)


def fitted(value: Column, t: AtomicType) -> Column:
    """Return a text as stored: CHAR padded, trailing blanks beyond the length removed; NULL if it is too long."""
    limit = int(t.length or 0)
    short = f.rpad(value, limit, " ") if t.root is TypeRoot.CHAR else value
    cut = f.when(f.length(f.rtrim(value)) <= limit, f.substring(value, 1, limit))
    return f.when(f.length(value) <= limit, short).otherwise(cut)

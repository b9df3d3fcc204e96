"""Values of loaded files as values of columns: converted as an INSERT assigns them, and whether they fit.

Nested values are rebuilt member by member, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as st

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spark.store_assignment import can_store, column_type, fitted, is_limited
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    entry_types,
    type_to_json,
)

_BINARY = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)
TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_DAY = r"\A\s*[+-]?\d{4,7}(-\d{1,2}(-\d{1,2}"
_PATTERNS = {
    TypeRoot.DATE: _DAY + r"([ T]00:00(:00(\.0+)?)?)?)?)?\s*\z",
    TypeRoot.TIMESTAMP: _DAY + r"([ T]\d{1,2}(:\d{1,2}(:\d{1,2}(\.\d*)?)?)?)?)?)?\s*\z",
    TypeRoot.TIMESTAMP_LTZ: r"\A\s*[+-]?\d{4}.*\z",
}
"""What a text must look like beyond what Spark's cast asks: no more than the value, a day, and no zone without use."""
_INTEGRAL = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_FRACTIONAL = (st.FloatType, st.DoubleType, st.DecimalType)
_INFINITY = r"(?i)\A\s*[+-]?inf"


@dataclass(frozen=True, slots=True)
class Converted:
    """A value of a column, and whether it is wrong, which is never NULL."""

    value: Column
    wrong: Column


def _false() -> Column:
    return f.lit(col=False)


def spark_type(t: DataType) -> Any:
    """Return the type in which Spark holds values."""
    return column_type(DataField(0, "value", t))


def type_name(t: DataType) -> str:
    """Return a type as messages name it."""
    told = type_to_json(t)
    return told if isinstance(told, str) else msgspec.json.encode(told).decode()


def text_type(t: DataType) -> Any:
    """Return the type in which JSON gives a value: texts, which are cast then, in the shape of the type."""
    if isinstance(t, AtomicType):
        return st.VariantType() if t.root is TypeRoot.VARIANT else st.StringType()
    if isinstance(t, ArrayType):
        return st.ArrayType(text_type(t.element))
    if isinstance(t, RowType):
        return st.StructType([st.StructField(m.name, text_type(m.type)) for m in t.fields])
    return st.MapType(st.StringType(), text_type(entry_types(t)[1]))


def missing(t: DataType) -> Converted:
    """Return the NULL of a column that a file has not."""
    return Converted(f.lit(None).cast(spark_type(t)), f.lit(not t.nullable))


def converted(value: Column, given: Any, wanted: DataType, *, text: bool) -> Converted:
    """Return a value of type `given` as one of `wanted`.

    Args:
        value: the value.
        given: the Spark type of the value.
        wanted: the type of the column.
        text: the value comes from a text file, so texts are parsed.

    Raises:
        ArgumentError: Spark's INSERT would not store such a type in the column.
    """
    if given == spark_type(wanted) and not text and not _has_rules(wanted):
        made = Converted(value, _false())
    elif isinstance(wanted, AtomicType):
        made = _atomic(value, given, wanted, text=text)
    else:
        made = _nested(value, given, wanted, text=text)
    wrong = f.coalesce(made.wrong, _false())
    return Converted(made.value, wrong if wanted.nullable else wrong | value.isNull() | made.value.isNull())


def _has_rules(t: DataType) -> bool:
    """Return whether there is more to values than their Spark type: lengths, or NOT NULL inside."""
    if isinstance(t, AtomicType):
        return is_limited(t)
    inner = _inner(t)
    return any(_has_rules(i) or not i.nullable for i in inner) or (isinstance(t, ArrayType) and t.length is not None)


def _inner(t: DataType) -> list[DataType]:
    if isinstance(t, ArrayType):
        return [t.element]
    if isinstance(t, RowType):
        return [m.type for m in t.fields]
    return list(entry_types(t)) if isinstance(t, MapType | MultisetType) else []


# -------------------------------------------------------------------------------------------------------------- atomic


def _atomic(value: Column, given: Any, wanted: AtomicType, *, text: bool) -> Converted:
    target = spark_type(wanted)
    if not text and not can_store(given, target):
        raise _unfit(given, wanted)
    if wanted.root in TEXTS:
        value = value.cast("string")
        new = fitted(value, wanted) if is_limited(wanted) else value
        return Converted(new, value.isNotNull() & new.isNull())
    new = _parsed(value, given, wanted) if text else value.try_cast(target)
    wrong = value.isNotNull() & new.isNull()
    if isinstance(target, st.FloatType | st.DoubleType):
        infinite = value.cast("string").rlike(_INFINITY)
        wrong = wrong | (new.isin(float("inf"), float("-inf")) & ~infinite)
    if not text and isinstance(target, _INTEGRAL) and isinstance(given, _FRACTIONAL):
        wrong = wrong | ~new.try_cast(given).eqNullSafe(value)
    return Converted(new, wrong)


def _parsed(value: Column, given: Any, wanted: AtomicType) -> Column:
    """Return a text as a value; NULL for another text."""
    if wanted.root in _BINARY:
        return f.try_to_binary(value, f.lit("base64"))
    if wanted.root is TypeRoot.VARIANT:
        return value if isinstance(given, st.VariantType) else f.try_parse_json(value)
    new = value.try_cast(spark_type(wanted))
    pattern = _PATTERNS.get(wanted.root)
    return f.when(value.rlike(pattern), new) if pattern else new


def _unfit(given: Any, wanted: DataType) -> ArgumentError:
    return ArgumentError(
        f"The files have the type {given.simpleString()}, which cannot be stored as {type_name(wanted)}.",
        hint="Name the columns to load, or give the column the type of the files.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


# -------------------------------------------------------------------------------------------------------------- nested


def _nested(value: Column, given: Any, wanted: DataType, *, text: bool) -> Converted:
    if isinstance(wanted, ArrayType) and isinstance(given, st.ArrayType):
        return _array(value, given, wanted, text=text)
    if isinstance(wanted, RowType) and isinstance(given, st.StructType):
        return _row(value, given, wanted, text=text)
    if isinstance(wanted, MapType | MultisetType) and isinstance(given, st.MapType):
        return _map(value, given, wanted, text=text)
    raise _unfit(given, wanted)


def _array(value: Column, given: Any, wanted: ArrayType, *, text: bool) -> Converted:
    def part(item: Column) -> Converted:
        return converted(item, given.elementType, wanted.element, text=text)

    wrong = f.exists(value, lambda item: part(item).wrong)
    if wanted.length is not None:
        wrong = wrong | (f.size(value) != f.lit(wanted.length))
    return Converted(f.transform(value, lambda item: part(item).value), value.isNotNull() & wrong)


def _row(value: Column, given: Any, wanted: RowType, *, text: bool) -> Converted:
    parts = []
    for field in wanted.fields:
        found = member(given, field.name)
        if found is None:
            parts.append(missing(field.type))
        else:
            parts.append(converted(value.getField(found.name), found.dataType, field.type, text=text))
    new = f.struct(*(p.value.alias(m.name) for p, m in zip(parts, wanted.fields, strict=True)))
    return Converted(f.when(value.isNotNull(), new), value.isNotNull() & reduce(or_, (p.wrong for p in parts)))


def _map(value: Column, given: Any, wanted: MapType | MultisetType, *, text: bool) -> Converted:
    key_type, value_type = entry_types(wanted)

    def key(entry: Column) -> Converted:
        return converted(entry.getField("key"), given.keyType, key_type, text=text)

    def item(entry: Column) -> Converted:
        return converted(entry.getField("value"), given.valueType, value_type, text=text)

    def pair(entry: Column) -> Column:
        return f.struct(key(entry).value.alias("key"), item(entry).value.alias("value"))

    def distinct(entry: Column) -> Column:
        made = key(entry).value
        return made + f.lit(0.0) if isinstance(spark_type(key_type), st.FloatType | st.DoubleType) else made  # -0.0

    entries = f.map_entries(value)
    keys = f.transform(entries, distinct)
    wrong = f.exists(entries, lambda e: key(e).wrong | item(e).wrong) | (f.size(f.array_distinct(keys)) < f.size(keys))
    wrong = value.isNotNull() & f.coalesce(wrong, _false())
    return Converted(f.when(~wrong, f.map_from_entries(f.transform(entries, pair))), wrong)


def member(given: Any, name: str) -> Any:
    """Return the member of a struct with a name, if need be in another letter case; None without one."""
    exact = next((m for m in given if m.name == name), None)
    return exact or next((m for m in given if m.name.lower() == name.lower()), None)


# ------------------------------------------------------------------------------------------------------------- as text


def storable(value: Column, given: Any, kind: str) -> Column:
    """Return a value as a CSV or JSON file holds it: binary as base64, keys of maps as text.

    Raises:
        ArgumentError: the format has no such value.
    """
    if isinstance(given, st.VariantType) and kind == "CSV":
        return f.to_json(value)
    if isinstance(given, st.BinaryType):
        return f.base64(value)
    if not isinstance(given, st.ArrayType | st.StructType | st.MapType) or not _changes(given):
        return value
    if isinstance(given, st.ArrayType):
        return f.transform(value, lambda item: storable(item, given.elementType, kind))
    if isinstance(given, st.StructType):
        parts = [storable(value.getField(m.name), m.dataType, kind).alias(m.name) for m in given]
        return f.when(value.isNotNull(), f.struct(*parts))
    return _storable_map(value, given, lambda v: storable(v, given.valueType, kind))


def _storable_map(value: Column, given: Any, item: Callable[[Column], Column]) -> Column:
    if isinstance(given.keyType, st.ArrayType | st.StructType | st.MapType | st.VariantType):
        raise ArgumentError(
            f"JSON has no maps with keys of type {given.keyType.simpleString()}.",
            hint="Write PARQUET, or map_entries(…) of the map.",
            kind=ErrorKind.TYPE_MISMATCH,
        )
    binary = isinstance(given.keyType, st.BinaryType)

    def pair(entry: Column) -> Column:
        key = entry.getField("key")
        key = f.base64(key) if binary else key.cast("string")
        return f.struct(key.alias("key"), item(entry.getField("value")).alias("value"))

    return f.map_from_entries(f.transform(f.map_entries(value), pair))


def _changes(given: Any) -> bool:
    if isinstance(given, st.ArrayType):
        return _changes(given.elementType)
    if isinstance(given, st.StructType):
        return any(_changes(m.dataType) for m in given)
    if isinstance(given, st.MapType):
        return not isinstance(given.keyType, st.StringType) or _changes(given.valueType)
    return isinstance(given, st.BinaryType)

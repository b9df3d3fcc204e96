"""Column types as SQL writes them, in Flink's and in Spark's spelling."""

from __future__ import annotations

import re
from dataclasses import replace

from paimon_spark.errors import CorruptTableError, ErrorKind, UnsupportedError, UsageError, did_you_mean
from paimon_spark.spec.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    not_null,
    parse_atomic,
    type_from_json,
    type_to_json,
)
from paimon_spark.sqlparse.cursor import Cursor

_SPARKS = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "LONG": "BIGINT", "REAL": "FLOAT", "BINARY": "BYTES"}
_TIMESTAMP = re.compile(r"TIMESTAMP(_NTZ)?(?![_A-Z])")
_ATOMIC_NAMES = (
    *("CHAR", "VARCHAR", "STRING", "BOOLEAN", "BINARY", "VARBINARY", "BYTES", "DECIMAL", "NUMERIC", "DEC", "TINYINT"),
    *("SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
)
_NAMES = (*_ATOMIC_NAMES, "VARIANT", "ARRAY", "MAP", "ROW", "STRUCT")


def column_type(cursor: Cursor, *, flink: bool) -> DataType:
    """Read a type with its ``NULL`` or ``NOT NULL``.

    Args: cursor: positioned at the type. flink: whether names are those of Flink's types. In Spark TIMESTAMP is an
    instant and BINARY has any length; in Flink
            TIMESTAMP is a local time and BINARY one byte.

    Raises:
        SqlSyntaxError: no type follows.
        UsageError: there is no such type.
        UnsupportedError: the type is MULTISET.
    """
    word = cursor.peek()
    if word == "MULTISET":
        raise UnsupportedError(
            "A column cannot be of type MULTISET.", hint="Use MAP<element, INT>, which stores the same values."
        )
    if word in ("ARRAY", "MAP", "ROW", "STRUCT") and cursor.peek(1) in ("<", "("):
        found = _constructed(cursor, flink=flink)
    else:
        found = _atomic(cursor, flink=flink)
    if cursor.accept("NOT", "NULL"):
        return not_null(found)
    cursor.accept("NULL")
    return found


def _constructed(cursor: Cursor, *, flink: bool) -> DataType:
    kind = cursor.identifier("a type").upper()
    closing = ">" if cursor.accept("<") else ")"
    if closing == ")":
        cursor.expect("(")

    def inner() -> DataType:
        return column_type(cursor, flink=flink)

    if kind == "ARRAY":
        found: DataType = ArrayType(inner())
    elif kind == "MAP":
        key = inner()
        cursor.expect(",")
        found = MapType(key, inner())
    else:
        fields = [_member(cursor, 0, flink=flink)]
        while cursor.accept(","):
            fields.append(_member(cursor, len(fields), flink=flink))
        found = RowType(tuple(fields))
    cursor.expect(closing)
    return found


def _member(cursor: Cursor, number: int, *, flink: bool) -> DataField:
    name = cursor.identifier("the name of a field")
    cursor.accept(":")
    found = column_type(cursor, flink=flink)
    comment = None
    if cursor.accept("COMMENT"):
        comment = cursor.string("a comment")
    elif cursor.peek() == "" and not cursor.done:
        comment = cursor.string("a comment")  # Flink writes the description of a field without a keyword
    return DataField(number, name, found, comment)


def _atomic(cursor: Cursor, *, flink: bool) -> DataType:
    name = cursor.identifier("a type").upper()
    text = name
    if name == "DOUBLE":
        cursor.accept("PRECISION")
    if cursor.accept("("):
        numbers = [str(cursor.number("a number"))]
        while cursor.accept(","):
            numbers.append(str(cursor.number("a number")))
        cursor.expect(")")
        text = f"{name}({', '.join(numbers)})"
    if not flink:
        text = _SPARKS.get(text) or _spark_time(text)
    text += _zone(cursor)
    try:
        return replace(type_from_json(type_to_json(parse_atomic(text))), nullable=True)
    except CorruptTableError as e:
        raise UsageError(
            f"'{text}' is not a column type.",
            hint=did_you_mean(name, _NAMES)
            or ("A number in parentheses is out of range." if "(" in text else f"The types are {', '.join(_NAMES)}."),
            kind=ErrorKind.SCHEMA_INVALID,
        ) from e


def _spark_time(text: str) -> str:
    """Return the format's name of Spark's TIMESTAMP, which is an instant, and TIMESTAMP_NTZ."""
    return _TIMESTAMP.sub(lambda m: "TIMESTAMP" if m[1] else "TIMESTAMP_LTZ", text)


def _zone(cursor: Cursor) -> str:
    for words in (("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE")):
        if cursor.accept(*words):
            return " " + " ".join(words)
    return ""

"""Input rows of callers: any Arrow data, validated against the table before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, did_you_mean
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import DataField, type_text

_T = TypeVar("_T")
_STATUS = re.compile(r"^(Unknown error|Invalid|[A-Za-z]+ ?[Ee]rror): ")
"""What Arrow writes before the message of an exception of Python."""
_EMPTY = "Pass a pyarrow Table, RecordBatch or RecordBatchReader, or a data frame of polars, pandas or duckdb."


@runtime_checkable
class ArrowStream(Protocol):
    """An object with the Arrow C stream interface: pyarrow, polars, pandas, duckdb and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream as a capsule."""


@runtime_checkable
class ArrowArray(Protocol):
    """An object with the Arrow C array interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return the schema and the array as capsules."""


ArrowRows = ArrowStream | ArrowArray | list[pa.RecordBatch] | tuple[pa.RecordBatch, ...]
"""Accepted input types."""


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """Rows to write. `batches` may be called more than once only if `repeatable`."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    repeatable: bool

    @classmethod
    def of(cls, data: Any) -> ArrowInput:
        """Return an object's rows.

        Raises:
            ArgumentError: it does not implement an Arrow interface.
        """
        if isinstance(data, list | tuple) and data and all(isinstance(b, pa.RecordBatch) for b in data):
            try:
                data = pa.Table.from_batches(data)
            except pa.ArrowInvalid as e:
                raise ArgumentError(f"The record batches have different schemas: {e}.", hint=_EMPTY) from e
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            table = data
            return cls(table.schema, lambda: iter(table.to_batches()), repeatable=True)
        if isinstance(data, ArrowStream):
            # a C stream would turn an interrupt into an error of Arrow
            direct = isinstance(data, pa.RecordBatchReader)
            reader: Any = data if direct else _opened(pa.RecordBatchReader.from_stream, data)
            return cls(reader.schema, lambda: _read(reader), repeatable=False)
        if isinstance(data, ArrowArray):
            return cls.of(_opened(pa.record_batch, data))
        raise ArgumentError(
            f"A {type(data).__name__} is not Arrow data.", hint=_conversion(data), kind=ErrorKind.TYPE_MISMATCH
        )


def _conversion(data: Any) -> str:
    """Return how to make Arrow data of an object."""
    if isinstance(data, list | tuple) and data and all(isinstance(part, pa.Table | pa.RecordBatch) for part in data):
        return "Join the tables first: pa.concat_tables(tables)."
    if isinstance(data, dict | list | tuple):
        return "Convert it first: pa.table({'column': values}) or pa.Table.from_pylist(rows)."
    if isinstance(data, Iterator):
        return "For record batches, pass pa.RecordBatchReader.from_batches(schema, batches)."
    return _EMPTY


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; a failure of its source becomes an ArgumentError."""
    try:
        yield from reader
    except Exception as e:
        why = _STATUS.sub("", str(e).split(". Detail: ", 1)[0]) or type(e).__name__
        raise ArgumentError(f"The stream of rows failed: {why}.", hint="Nothing was written.") from e


def _opened(read: Callable[[Any], _T], data: Any) -> _T:
    """Call an Arrow interface of an object of any class and return the result; failures become ArgumentErrors."""
    try:
        return read(data)
    except Exception as e:
        raise ArgumentError(
            f"A {type(data).__name__} cannot be read as Arrow data: {e}.", hint=_EMPTY, kind=ErrorKind.TYPE_MISMATCH
        ) from e


_ORDERED = (
    "Give each key the value of the sequence field that its row has, or a later one: a row with a later value stays. "
    "delete(filter=…) deletes rows whatever their sequence."
)


def check_rows(source: ArrowInput, table: Table, needed: Collection[str] | None = None) -> None:
    """Validate the columns of input rows against a table. An index of pandas without a name is no column.

    Args:
        source: the rows.
        table: the target table.
        needed: required columns; all columns of the table by default.

    Raises:
        ArgumentError: a column is missing, unknown or duplicated, or has an incompatible type.
    """
    known = table.schema.field_names
    ignored = unnamed_indexes(source.schema) - set(known)
    names = [n for n in source.schema.names if n not in ignored]
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"The rows have a column '{name}' that table {table.name} does not have; its columns are "
                f"{', '.join(known)}.",
                hint=did_you_mean(name, known) or "Rename or drop the column.",
                kind=ErrorKind.COLUMN_NOT_FOUND,
            )
        if names.count(name) > 1:
            raise ArgumentError(f"The rows have the column '{name}' more than once.", hint="Drop one of them.")
    missing = [n for n in (known if needed is None else needed) if n not in names]
    if missing:
        ordered = needed is not None and any(n in table.options.sequence_field for n in missing)
        raise ArgumentError(
            f"The rows for table {table.name} lack {_some(missing)}.",
            hint=_ORDERED if ordered else "Add what is missing; a nullable column may be all null.",
            kind=ErrorKind.COLUMN_NOT_FOUND,
        )
    for name in names:
        _check_type(source.schema.field(name), table.schema.field(name), table.name)


def unnamed_indexes(schema: pa.Schema) -> set[str]:
    """Return the columns that are indexes without a name of a pandas data frame, such as a filtered or sorted one."""
    try:
        frame = schema.pandas_metadata or {"index_columns": [], "columns": []}
        indexes = frame["index_columns"]
        return {c["field_name"] for c in frame["columns"] if c["name"] is None and c["field_name"] in indexes}
    except (ValueError, TypeError, KeyError):  # metadata of another writer
        return set()


def _check_type(given: pa.Field, column: DataField, table: str) -> None:
    wanted = to_arrow_type(column.type)
    if not holds_same(given.type, wanted):
        raise ArgumentError(
            f"Column '{column.name}' of table {table} is {type_text(column.type)} (Arrow {wanted}), but the rows "
            f"have {given.type}.",
            hint="Cast the column before writing.",
            kind=ErrorKind.TYPE_MISMATCH,
        )


def holds_same(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one Arrow type are accepted for another; single values may still be out of range."""
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return holds_same(given.value_type, wanted)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    nested = _nested(given, wanted)
    if nested is not None:
        return nested
    return any(is_given(given) and is_wanted(wanted) for is_given, is_wanted in _FAMILIES)


def _nested(given: pa.DataType, wanted: pa.DataType) -> bool | None:
    if is_list(wanted):
        return is_list(given) and holds_same(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        same_map = pa.types.is_map(given) and holds_same(given.key_type, wanted.key_type)
        return same_map and holds_same(given.item_type, wanted.item_type)
    if pa.types.is_struct(wanted):
        same_names = pa.types.is_struct(given) and [f.name for f in given] == [f.name for f in wanted]
        return same_names and all(holds_same(g.type, w.type) for g, w in zip(given, wanted, strict=True))
    return None


def is_list(t: pa.DataType) -> bool:
    """Return whether values of an Arrow type are lists, of any or of a fixed length."""
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: pa.DataType) -> bool:
    fixed = pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t)
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t) or fixed)


def _is_exact(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_decimal(t))


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_decimal(t) or pa.types.is_floating(t))


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (_is_text, _is_text),
    (_is_bytes, _is_bytes),
    (pa.types.is_integer, _is_exact),
    (pa.types.is_decimal, pa.types.is_decimal),
    (_is_number, pa.types.is_floating),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_time, pa.types.is_time),
)


def _some(names: list[str]) -> str:
    return ("the column " if len(names) == 1 else "the columns ") + ", ".join(f"'{n}'" for n in names)

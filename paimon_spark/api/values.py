"""Conversion of input values to the types of a table. Values that the table cannot hold are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.api.rows import is_list
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import misfit
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.texts import is_valid
from paimon_spark.spec.types import DataField

_MOST_DIGITS = 76
_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def exact_batches(batches: Iterable[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns of a table, in its types.

    Floating-point numbers are rounded to FLOAT; no other value changes.

    Raises:
        ArgumentError: a value does not fit the type of its column; the message names the column.
    """
    for batch in batches:
        names = [n for n in batch.schema.names if n in table.schema.field_names]
        columns = [_exact(batch.column(n), table.schema.field(n), table.name) for n in names]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _exact(column: pa.Array, field: DataField, table: str) -> pa.Array:
    wanted = to_arrow_type(field.type)
    try:
        found = _cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise misfit(field, table, _example(column, wanted) or str(e)) from e
    if found is not column:
        infinite = _infinite(found)
        if infinite and infinite > _infinite(column):
            raise misfit(field, table, "a number is too large")
    _check_valid(found, field, table)
    return found


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    while column.type != wanted:
        column = column.cast(_next(column.type, wanted))
    return column


def _example(column: pa.Array, wanted: pa.DataType) -> str | None:
    """Return the first value of an atomic column that does not fit, as in ``12:30:00.5 is not such a value``."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        return None
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if not _fits(column[low:middle], wanted) else (middle, high)
    plain = pa.timestamp("ms") if pa.types.is_date64(column.type) else column.type
    try:
        return f"{column[low].cast(plain).cast(pa.string())} is not such a value"
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _fits(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        _cast(column, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _next(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type to cast to first.

    Arrow takes no views out of dictionaries, and casts integers only to decimals with digits for all of their type.
    """
    if pa.types.is_dictionary(given):
        if given.value_type in _PLAIN:
            return pa.dictionary(given.index_type, _PLAIN[given.value_type], given.ordered)
        return given.value_type
    if pa.types.is_integer(given) and pa.types.is_decimal(wanted):
        return pa.decimal256(_MOST_DIGITS, wanted.scale)
    if is_list(given) and is_list(wanted):
        element = _next(given.value_type, wanted.value_type)
        return wanted if element == wanted.value_type else _list_of(given, element)
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        key, item = _next(given.key_type, wanted.key_type), _next(given.item_type, wanted.item_type)
        return wanted if (key, item) == (wanted.key_type, wanted.item_type) else pa.map_(key, item)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        members = [_next(g.type, w.type) for g, w in zip(given, wanted, strict=True)]
        if members != [w.type for w in wanted]:
            return pa.struct([g.with_type(t) for g, t in zip(given, members, strict=True)])
    return wanted


def _list_of(like: pa.DataType, element: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(like):
        return pa.list_(element, like.list_size)
    return pa.large_list(element) if pa.types.is_large_list(like) else pa.list_(element)


def _check_valid(column: pa.Array, field: DataField, table: str) -> None:
    """Check what Arrow does not when it makes an array: texts, the digits of decimals, and times of day."""
    for leaf in _leaves(column):
        if pa.types.is_string(leaf.type) and not is_valid(leaf):
            raise ArgumentError(
                f"Column '{field.name}' of table {table} has a text that is not valid UTF-8.",
                hint="Decode its bytes by their own encoding, or store them in a column of type BYTES.",
                kind=ErrorKind.TYPE_MISMATCH,
            )
        if pa.types.is_decimal(leaf.type) or pa.types.is_time(leaf.type):
            try:
                leaf.validate(full=True)
            except pa.ArrowInvalid as e:
                raise misfit(field, table, str(e)) from e


def _infinite(column: pa.Array) -> int:
    """Return the number of infinite values in a column."""
    floats = (leaf for leaf in _leaves(column) if pa.types.is_floating(leaf.type))
    return sum(pc.sum(pc.is_inf(leaf.cast(pa.float64()))).as_py() or 0 for leaf in floats)


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of the atomic values in a column."""
    t = column.type
    if pa.types.is_dictionary(t) and pa.types.is_floating(t.value_type):
        yield column.dictionary_decode()
    elif is_list(t):
        yield from _leaves(pc.list_flatten(column))
    elif pa.types.is_map(t) and len(column):
        first, end = column.offsets[0].as_py(), column.offsets[-1].as_py()  # keys and items are those of all slices
        yield from _leaves(column.keys[first:end])
        yield from _leaves(column.items[first:end])
    elif pa.types.is_struct(t):
        for i in range(t.num_fields):
            yield from _leaves(pc.struct_field(column, [i]))
    else:
        yield column

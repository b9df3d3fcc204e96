"""The stripes of an ORC file that may have a match, by the ranges of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.orc.messages import Field, messages, number_of, parts_of, signed
from paimon_spark.format.orc.statistics import HAS_NULL, VALUES, Statistics
from paimon_spark.format.schema_conform import has_char
from paimon_spark.spec.types import DataField

_LEAST, _GREATEST = 1, 2
"""Field numbers of the ends of a range, in statistics of all types that are used here."""
_SCRIPT_WRITER = 6


def matching_stripes(statistics: Statistics, fields: Sequence[DataField], expression: pc.Expression) -> list[int]:
    """Return the stripes that may contain a row for which `expression` is true.

    Args:
        statistics: the statistics of the file.
        fields: its columns; others have no range.
        expression: a filter of `fields`.
    """
    everything = list(range(len(statistics.tail.stripes)))
    if number_of(statistics.tail.script, _SCRIPT_WRITER) == 0:  # the first writers merged ranges wrongly
        return everything
    from pyarrow import dataset  # it imports pandas

    schema = to_arrow_schema(fields)
    file_format, nowhere = dataset.OrcFileFormat(), fs.LocalFileSystem()
    try:
        fragments = [
            file_format.make_fragment(str(i), filesystem=nowhere, partition_expression=guarantee)
            for i, guarantee in enumerate(_guarantees(statistics, fields, str(expression)))
        ]
        stripes = dataset.FileSystemDataset(fragments, schema, file_format, nowhere)
        return [int(f.path) for f in stripes.get_fragments(expression)]
    except UnicodeDecodeError:  # the expression has bytes that are no text
        return everything
    except (UnsupportedError, pa.ArrowException):  # packed statistics; an expression that names other columns
        return everything


def _guarantees(statistics: Statistics, fields: Sequence[DataField], expression: str) -> Iterator[pc.Expression]:
    """Yield, for each stripe, what is true of all its rows, as far as `expression` names the columns."""
    tail, numbers = statistics.tail, statistics.tail.numbers
    usable = [f for f in fields if f.name in expression and f.name in numbers and not has_char(f.type)]
    columns = [(numbers[f.name], f) for f in to_arrow_schema(usable)]
    for own in statistics.of_stripes():
        guarantee = pc.scalar(True)  # noqa: FBT003 - an Arrow literal
        for number, field in columns if own else ():
            for part in _guarantee(pc.field(field.name), tail.columns[number].kind, own[number], field.type):
                guarantee &= part
        yield guarantee


def _guarantee(column: pc.Expression, kind: int, data: bytes, t: pa.DataType) -> Iterator[pc.Expression]:
    """Yield what is true of all values of a column of a stripe.

    Arrow takes the two ends of a range into account only if each has its own alternative of a null.
    """
    statistics = tuple(messages(data))
    has_null = number_of(statistics, HAS_NULL, 1)
    if number_of(statistics, VALUES, -1) == 0 and has_null:
        yield column.is_null()
        return
    ends = _range(kind, statistics, t)
    for within in () if ends is None else (column >= ends[0], column <= ends[1]):
        yield within | column.is_null() if has_null else within


def _range(kind: int, statistics: Sequence[Field], t: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return the least and the greatest value of a column, if its statistics have them."""
    stored = next((k for k in _KINDS if kind in k.numbers and k.holds(t)), None)
    if stored is None:
        return None
    found = dict(f for part in parts_of(statistics, stored.place) for f in messages(part))
    try:
        return pa.scalar(stored.value(found[_LEAST]), t), pa.scalar(stored.value(found[_GREATEST]), t)
    except (KeyError, ValueError, TypeError, OverflowError, DecimalException, pa.ArrowException):
        return None


def _text(stored: int | bytes) -> str:
    """Return a text; Java writers replace bytes that are no text, which moves the end of the range.

    Raises:
        ValueError: it is not known what was replaced.
    """
    text = bytes(stored).decode()
    if "\ufffd" in text:
        raise ValueError("the end of a range has a replaced byte")
    return text


def _number(stored: int | bytes) -> int:
    return signed(int(stored))


@dataclass(frozen=True, slots=True)
class _Kind:
    """Columns whose ranges are stored in the same way."""

    numbers: tuple[int, ...]
    holds: Callable[[pa.DataType], bool]
    place: int
    """The field among the statistics of a column."""
    value: Callable[[int | bytes], Any]


_KINDS = (
    _Kind((1, 2, 3, 4), pa.types.is_integer, 2, _number),
    _Kind((7, 16), pa.types.is_string, 4, _text),
    _Kind((14,), pa.types.is_decimal, 6, lambda stored: Decimal(_text(stored))),
    _Kind((15,), pa.types.is_date32, 7, _number),
)
"""Statistics of floating point numbers leave out NaN, and those of timestamps are rounded."""

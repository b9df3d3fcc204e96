"""The stripes of an ORC file that may have a match, by the statistics of their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.orc.layout import VALUES, Tail
from paimon_spark.format.orc.messages import Field, messages, number_of, parts_of, signed
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

_LEAST, _GREATEST = 1, 2
"""The fields with the ends of a range, in statistics of any type."""
_HAS_NULL = 10


def matching_stripes(
    tail: Tail, source: pa.NativeFile, fields: Sequence[DataField], expression: pc.Expression
) -> list[int]:
    """Return the stripes that may contain a row for which `expression` is true.

    Args:
        tail: the tail of the file.
        source: the file.
        fields: its columns; others have no known range.
        expression: a filter of `fields`.
    """
    everything = list(range(len(tail.stripes)))
    statistics = list(tail.stripe_statistics(source))
    if len(statistics) != len(everything) or any(len(s) < len(tail.columns) for s in statistics):
        return everything
    from pyarrow import dataset  # it imports pandas

    schema = to_arrow_schema(fields)
    named = str(expression)
    usable = [f.name in named and f.name in tail.numbers and not _is_padded(f) for f in fields]
    known = list(compress(schema, usable))
    file_format, nowhere = dataset.OrcFileFormat(), fs.LocalFileSystem()
    fragments = [
        file_format.make_fragment(str(i), filesystem=nowhere, partition_expression=_known(tail, columns, known))
        for i, columns in enumerate(statistics)
    ]
    stripes = dataset.FileSystemDataset(fragments, schema, file_format, nowhere)
    try:
        return [int(f.path) for f in stripes.get_fragments(expression)]
    except pa.ArrowInvalid:  # the expression names other columns
        return everything


def _known(tail: Tail, statistics: Sequence[Sequence[Field]], columns: Sequence[pa.Field]) -> pc.Expression:
    """Return what is true of every row of a stripe."""
    known = pc.scalar(True)  # noqa: FBT003 - an Arrow literal
    for field in columns:
        number = tail.numbers[field.name]
        column, own = pc.field(field.name), statistics[number]
        if number_of(own, VALUES, -1) == 0:
            known &= column.is_null()
            continue
        ends = _range(tail.columns[number].kind, own, field.type)
        for within in () if ends is None else (column >= ends[0], column <= ends[1]):
            known &= within if number_of(own, _HAS_NULL, 1) == 0 else within | column.is_null()
    return known


def _range(kind: int, statistics: Sequence[Field], t: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return the least and the greatest value of a column, if its statistics have them."""
    known = next((k for k in _KINDS if kind in k.kinds and k.holds(t)), None)
    if known is None:
        return None
    found = dict(f for part in parts_of(statistics, known.place) for f in messages(part))
    try:
        least, greatest = (pa.scalar(known.value(found[end]), t) for end in (_LEAST, _GREATEST))
    except (KeyError, ValueError, TypeError, OverflowError, DecimalException, pa.ArrowException):
        return None
    return least, greatest


def _is_padded(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root is TypeRoot.CHAR


def _text(stored: int | bytes) -> str:
    return bytes(stored).decode()


def _number(stored: int | bytes) -> int:
    return signed(int(stored))


@dataclass(frozen=True, slots=True)
class _Statistics:
    """How the ranges of some kinds of columns are stored."""

    kinds: tuple[int, ...]
    holds: Callable[[pa.DataType], bool]
    place: int
    """The field among the statistics of a column."""
    value: Callable[[int | bytes], Any]


_KINDS = (
    _Statistics((1, 2, 3, 4), pa.types.is_integer, 2, _number),
    _Statistics((7, 16), pa.types.is_string, 4, _text),
    _Statistics((14,), pa.types.is_decimal, 6, lambda stored: Decimal(_text(stored))),
    _Statistics((15,), pa.types.is_date32, 7, _number),
)
"""Statistics of floating point numbers leave out NaN, and those of timestamps are rounded."""

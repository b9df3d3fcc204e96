"""Times with more fractional digits than a type has, which are cut downwards, also before 1970, as Paimon does."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrow_types import UNIT_DIGITS

_NAMES = {"ms": "millisecond", "us": "microsecond"}


def without_fractions(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Return a column whose times, those in nested values too, are whole in the units of `wanted`."""
    if not _is_finer(column.type, wanted):
        return column
    return pa.chunked_array([floored(chunk, wanted) for chunk in column.chunks], column.type)


def _is_finer(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return UNIT_DIGITS[given.unit] > UNIT_DIGITS[wanted.unit]
    alike = pa.types.is_nested(given) and given.id == wanted.id and given.num_fields == wanted.num_fields
    return alike and any(_is_finer(g, w) for g, w in zip(_parts(given), _parts(wanted), strict=True))


def _parts(t: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(t):
        return [t.key_type, t.item_type]
    return [t.field(i).type for i in range(t.num_fields)]


def floored(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return an array as `without_fractions` does a column."""
    t = array.type
    if not _is_finer(t, wanted):
        return array
    if pa.types.is_timestamp(t):
        instants = array.view(pa.timestamp(t.unit))  # with a zone, Arrow refuses local times that occur twice
        return pc.floor_temporal(instants, unit=_NAMES[wanted.unit]).view(t)
    whole = pa.concat_arrays([array.slice(0, 0), array]) if array.offset else array
    mask = whole.is_null() if whole.null_count else None
    if pa.types.is_struct(t):
        members = [floored(whole.field(i), w) for i, w in enumerate(_parts(wanted))]
        return pa.StructArray.from_arrays(members, fields=list(t), mask=mask)
    if pa.types.is_map(t):
        keys, items = floored(whole.keys, wanted.key_type), floored(whole.items, wanted.item_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=t, mask=mask)
    return type(whole).from_arrays(whole.offsets, floored(whole.values, wanted.value_type), type=t, mask=mask)

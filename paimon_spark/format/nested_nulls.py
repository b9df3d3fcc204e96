"""Nested arrays without values inside nulls, which some writers of Arrow cannot take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def packed(table: pa.Table) -> pa.Table:
    """Return the table without values inside the nulls of its nested columns.

    pyarrow's ORC writer ignores the offset of a struct, and shifts values inside null structs; its Parquet writer
    before release 25 refuses null lists of a length.
    """
    for i, f in enumerate(table.schema):
        if pa.types.is_nested(f.type):
            table = table.set_column(i, f, pa.chunked_array(map(pack, table.column(i).chunks), f.type))
    return table


def pack(array: pa.Array) -> pa.Array:
    """Return an array without an offset and without values inside nulls."""
    t = array.type
    whole = pa.concat_arrays([array.slice(0, 0), array]) if array.offset else array
    if not pa.types.is_nested(t):
        return whole
    mask = whole.is_null()
    if pa.types.is_struct(t):
        return pa.StructArray.from_arrays([pack(m) for m in whole.flatten()], fields=list(t), mask=mask)
    if pa.types.is_list(t):
        offsets, (values,) = _gathered(whole.offsets, mask, [whole.values])
        return pa.ListArray.from_arrays(offsets, pack(values), type=t, mask=mask)
    offsets, (keys, items) = _gathered(whole.offsets, mask, [whole.keys, whole.items])
    return pa.MapArray.from_arrays(offsets, pack(keys), pack(items), type=t, mask=mask)


def _gathered(offsets: pa.Array, mask: pa.Array, parts: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """Return offsets and child arrays of lists without the elements inside nulls."""
    lists = [pa.ListArray.from_arrays(offsets, part, mask=mask) for part in parts]
    lengths = pc.fill_null(pc.list_value_length(lists[0]), 0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), [one.flatten() for one in lists]

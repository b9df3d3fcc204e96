"""Batches of the JVM, which has no offsets in empty arrays inside of others."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.core.arrow import with_offsets

NOTHING = pa.py_buffer(b"")
NULL = pa.py_buffer(b"\0")
OFFSETS = pa.py_buffer(bytes(8))
INNER = pa.map_(pa.int32(), pa.list_(pa.date32()))


def without_offsets(t: pa.DataType) -> pa.Array:
    """Return an empty array as Java writes it."""
    if pa.types.is_struct(t):
        return pa.StructArray.from_arrays([without_offsets(f.type) for f in t], fields=list(t))
    if pa.types.is_map(t):
        entries = pa.struct([t.key_field, t.item_field])
        return pa.Array.from_buffers(t, 0, [None, NOTHING], children=[without_offsets(entries)])
    if pa.types.is_list(t):
        return pa.Array.from_buffers(t, 0, [None, NOTHING], children=[without_offsets(t.value_type)])
    return pa.Array.from_buffers(t, 0, [None, NOTHING, NOTHING]) if t == pa.string() else pa.array([], t)


def test_empty_arrays_get_offsets() -> None:
    row = pa.struct([pa.field("k", pa.string()), pa.field("m", INNER)])
    nulls = pa.Array.from_buffers(pa.list_(row), 1, [NULL, OFFSETS], children=[without_offsets(row)])
    mended = with_offsets(pa.record_batch([nulls, pa.array([7])], names=["n", "i"]))
    inside = mended.column(0).values
    assert [inside.field(0).buffers()[1].size, inside.field(1).buffers()[1].size] == [4, 4]
    assert mended.to_pylist() == [{"n": None, "i": 7}]
    assert mended.nbytes < 100


def test_other_batches_stay_as_they_are() -> None:
    batch = pa.record_batch([pa.array([[("a", [1])], None], pa.map_(pa.string(), pa.list_(pa.int32())))], names=["m"])
    assert with_offsets(batch) is batch

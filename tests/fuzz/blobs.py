"""The target that takes BLOB files."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.format.blob import ELSEWHERE, framed, index_of, read_index, read_values
from paimon_spark.fs.memory import InMemoryFileIO
from tests.fuzz.harness import Target


def blobs(data: bytes) -> None:
    """What is read can be written, and is the same again, but for rows whose values are elsewhere."""
    store = InMemoryFileIO()
    store.write("/f.blob", data)
    index = read_index(store, "/f.blob", len(data))
    rows = len(index.lengths)
    values = read_values(store, index, 0, rows)
    assert len(values) == rows
    assert values.null_count == int((index.lengths < 0).sum())
    written, lengths = framed(values)
    assert [n for n in index.lengths.tolist() if n != ELSEWHERE] == [
        n for n, old in zip(lengths.tolist(), index.lengths.tolist(), strict=True) if old != ELSEWHERE
    ]
    store.write("/g.blob", written + index_of([lengths]))
    again = read_index(store, "/g.blob", store.status("/g.blob").size)
    assert read_values(store, again, 0, rows).equals(values)


def _sample(*values: bytes | None) -> bytes:
    data, lengths = framed(pa.array(values, pa.binary()))
    return data + index_of([lengths])


TARGETS = [Target("blobs", blobs, (_sample(b"abc", None, b""), _sample(), _sample(None), _sample(b"x" * 300, b"y")))]

"""Packed rows as a writer takes them: small batches are put together, large ones come as they are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_spark.spark.executor.worker import unpacked


def stream(first: int, count: int, width: int) -> bytes:
    ids = range(first, first + count)
    batch = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64()), "text": ["x" * width for _ in ids]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
    return bytes(sink.getvalue())


def through(streams: Sequence[bytes], kind: pa.DataType) -> list[pa.RecordBatch]:
    sent = (pa.RecordBatch.from_pydict({"rows": pa.array([one], kind)}) for one in streams)
    return list(unpacked(sent))


def test_many_small_batches_become_few() -> None:
    found = through([stream(n * 10, 10, 500) for n in range(600)], pa.binary())
    assert 3 <= len(found) <= 5
    assert [n for batch in found for n in batch["id"].to_pylist()] == list(range(6000))
    assert {text for batch in found for text in batch["text"].to_pylist()} == {"x" * 500}


def test_large_batches_stay_as_they_are() -> None:
    found = through([stream(0, 3000, 1000), stream(3000, 2500, 1000)], pa.large_binary())
    assert [batch.num_rows for batch in found] == [3000, 2500]
    assert found[1]["id"].to_pylist() == list(range(3000, 5500))


def test_no_rows_are_no_batch() -> None:
    assert through([], pa.binary()) == []

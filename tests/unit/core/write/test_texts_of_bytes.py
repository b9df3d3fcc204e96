"""Texts that are not valid UTF-8, as Spark makes of bytes."""

from __future__ import annotations

import struct
from itertools import accumulate

import pyarrow as pa
import pytest

from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError
from paimon_spark.testing.tables import new_table, read_arrow

VALUES = [(b"a", b"\xff"), (b"\xff" * 5000, b"x" * 30_000), (b"\xfe", b"\xff")]


def rows(values: tuple[bytes, ...]) -> pa.Table:
    offsets = struct.pack(f"<{len(values) + 1}i", 0, *accumulate(map(len, values)))
    texts = pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(values)))
    return pa.table({"k": pa.array(range(len(values)), pa.int32()), "s": texts})


@pytest.mark.parametrize("keys", [("k",), ()])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("values", VALUES)
def test_bytes_come_back(keys: tuple[str, ...], file_format: str, values: tuple[bytes, ...]) -> None:
    options = {"file.format": file_format, **({"bucket": "1"} if keys else {})}
    table = new_table({"k": "INT", "s": "STRING"}, primary_key=keys, options=options)
    for _ in range(2):
        write_arrow(table, rows(values))
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    found = read_arrow(table).column("s").cast(pa.binary()).to_pylist()
    assert sorted(set(found)) == sorted(values)


@pytest.mark.parametrize("values", VALUES)
def test_avro_stores_texts_only(values: tuple[bytes, ...]) -> None:
    table = new_table({"k": "INT", "s": "STRING"}, options={"file.format": "avro"})
    with pytest.raises(ArgumentError, match="Column 's' has a text that is not valid UTF-8, which Avro cannot store"):
        write_arrow(table, rows(values))
    assert table.snapshots.latest() is None

"""The target that takes file indexes from manifest entries."""

from __future__ import annotations

import random
from datetime import date
from functools import cache

import pyarrow as pa

from paimon_spark.core.scan.file_indexes import FileIndexes
from paimon_spark.core.table import Table
from paimon_spark.format.file_index.writer import FileIndexWriter
from paimon_spark.spec.file_indexes import IndexKind, IndexSpec
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Predicate, StartsWith
from paimon_spark.testing.tables import new_table
from tests.fuzz.harness import Target

ROWS = 60
_COLUMNS = {"s": "STRING", "i": "INT", "d": "DATE"}
_PREDICATES: tuple[Predicate, ...] = (
    Comparison("=", "s", "a7"),
    Comparison(">=", "s", "a3"),
    StartsWith("s", "a1"),
    InList("i", (1, 2, -5)),
    Comparison("<", "i", 3),
    Comparison("!=", "i", 3),
    IsNull("i"),
    IsNull("d", negated=True),
    Comparison(">", "d", 19_000),
)


@cache
def _table() -> Table:
    return new_table(_COLUMNS)


def _sample(*kinds: IndexKind) -> bytes:
    rows = pa.table(
        {
            "s": [f"a{i % 9}" for i in range(ROWS)],
            "i": pa.array([None if i % 7 == 0 else i % 5 - 2 for i in range(ROWS)], pa.int32()),
            "d": [date(2024, 1, 1 + i % 3) for i in range(ROWS)],
        }
    )
    short = {IndexKind.BLOOM_FILTER: {"items": "20"}, IndexKind.BITMAP: {"index-block-size": "64b"}}
    specs = [IndexSpec(k, c, None, short.get(k, {})) for k in kinds for c in _COLUMNS]
    writer = FileIndexWriter(specs, _table().schema.fields)
    writer.add(rows)
    return writer.finish()


def file_index(data: bytes) -> None:
    """An index names only rows of its file."""
    file = DataFileMeta(
        file_name="data-1",
        file_size=1,
        row_count=ROWS,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=0,
        embedded_index=data,
    )
    indexes = FileIndexes(_table())
    for predicate in _PREDICATES:
        found = indexes.rows(EMPTY_ROW, 0, file, predicate)
        assert not found or found.max() < ROWS


def body_changed(rng: random.Random, data: bytes) -> bytes:
    """Change bytes after the header, which are those of the indexes."""
    out = bytearray(data)
    start = int.from_bytes(data[12:16]) if len(data) > 16 else 0
    for _ in range(rng.randrange(1, 5)):
        if start < len(out):
            out[rng.randrange(start, len(out))] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    return bytes(out)


TARGETS = [Target("file-index", file_index, (*map(_sample, IndexKind), _sample(*IndexKind)), (body_changed,), ())]

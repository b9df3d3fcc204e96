"""Random columns of every type, written to files of every format, are read back as they were."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.format import registry
from paimon_spark.format.arrow_types import ARROW_RELEASE, to_arrow_schema
from paimon_spark.format.parquet import ParquetFormat
from paimon_spark.fs.memory import InMemoryFileIO
from tests.columns import ATOMIC, draw_array, draw_type, exact, fields_of
from tests.data_files import read_batches

NANOS = tuple(t for t in ATOMIC if "(9)" in t)
FORMATS = {
    "parquet": ATOMIC if ARROW_RELEASE >= 23 else tuple(t for t in ATOMIC if not t.startswith("TIME(")),
    "orc": ATOMIC,
    "avro": tuple(t for t in ATOMIC if t not in NANOS),
}
"""The formats with the types that they hold."""


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_what_is_written_is_read_back(name: str, rng: random.Random) -> None:
    check(name, rng, rows=rng.choice((1, 3, 12)))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(25))
def test_many_rows_are_read_back(name: str, seed: int) -> None:
    check(name, random.Random(seed), rows=700)


@pytest.mark.parametrize("seed", range(25))
def test_what_an_older_arrow_gets_is_the_same(seed: int) -> None:
    atomic = tuple(t for t in ATOMIC if not t.startswith("TIME("))
    check("parquet", random.Random(seed), rows=700, made=ParquetFormat(arrow_release=21), atomic=atomic)


def check(
    name: str,
    rng: random.Random,
    rows: int,
    *,
    made: ParquetFormat | None = None,
    atomic: tuple[str, ...] | None = None,
) -> None:
    """Write random columns, read them back, and compare."""
    types = [draw_type(rng, depth=rng.randrange(3), atomic=atomic or FORMATS[name]) for _ in range(rng.randint(1, 3))]
    fields = fields_of(types)
    arrays = [draw_array(rng, f.type, rows, whole_range=True) for f in fields]
    table = pa.Table.from_arrays(arrays, schema=to_arrow_schema(fields))
    store, path = InMemoryFileIO(), f"/t/data-1.{name}"
    writer = (made or registry.for_name(name)).open_writer(store, path, fields)
    for batch in table.to_batches(rng.choice((5, 50, 1000))):
        writer.write(batch)
    written = writer.close()
    assert (written.size, written.rows) == (store.status(path).size, rows)
    back = pa.Table.from_batches(read_batches(store, path, fields), to_arrow_schema(fields))
    for f in fields:
        got, wanted = (exact(t[f.name].combine_chunks(), f.type) for t in (back, table))
        assert got == wanted, f.type

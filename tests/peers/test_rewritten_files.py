"""Tables whose DELETE rewrites files: Paimon reads them right after, and goes on writing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark import connect
from tests.peers.java_peer import run_steps
from tests.variants import mostly_slow

NAME = "db.t"
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("n", pa.int32())])
ENGINES = {
    "aggregation": {"fields.n.aggregate-function": "sum"},
    "partial-update": {"changelog-producer": "lookup"},
    "first-row": {},
}
TABLES = [*((e, "false") for e in ENGINES), ("aggregation", "true"), ("partial-update", "true")]
pytestmark = pytest.mark.peer


@pytest.mark.parametrize(("engine", "vectors"), mostly_slow(TABLES, ("first-row", "false"), ("partial-update", "true")))
def test_paimon_reads_and_goes_on_writing(tmp_path: Path, engine: str, vectors: str) -> None:
    catalog = connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "2", "merge-engine": engine, "deletion-vectors.enabled": vectors, **ENGINES[engine]}
    table = catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=options)
    for value in (1, 2):
        table.append(pa.table([pa.array(range(100), pa.int32()), pa.array([value] * 100, pa.int32())], schema=SCHEMA))
    table.delete("k BETWEEN 10 AND 29")
    table.delete(keys=pa.table({"k": pa.array([50, 51, 500], pa.int32())}))
    kept = {"aggregation": 3, "partial-update": 2, "first-row": 1}[engine]
    merged = {"aggregation": kept + 7, "partial-update": 7, "first-row": kept}[engine]
    expected = {k: kept for k in range(100) if not 10 <= k < 30 and k not in (50, 51)}
    read = {"do": "read", "table": NAME}
    write = {"do": "write", "table": NAME, "rows": [[k, 7] for k in (10, 40, 51)]}
    first, _, second = run_steps(tmp_path, [read, write, read])
    assert {int(k): int(n) for k, n in first["rows"]} == expected
    expected |= {10: 7, 40: merged, 51: 7}
    assert {int(k): int(n) for k, n in second["rows"]} == expected
    assert {r["k"]: r["n"] for r in table.to_arrow().to_pylist()} == expected

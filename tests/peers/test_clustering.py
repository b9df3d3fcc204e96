"""Clustered tables that both sides write and cluster in turn. Needs the jar of release 2.0 in `PEER_JAR`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark import connect
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.identifier import Identifier
from tests.peers.java_peer import try_steps

JAR = os.environ.get("PEER_JAR", "")
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32())])
KINDS = {
    "order": {"clustering.columns": "a"},
    "zorder": {"clustering.columns": "a,b"},
    "hilbert": {"clustering.columns": "b,a", "clustering.strategy": "hilbert"},
}
pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR, reason="only release 2.0 of Paimon clusters: give its jar in PEER_JAR"),
]


def drawn(seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randint(-50, 50), rng.randint(0, 9)] for _ in range(100)]


def put(table: TableHandle, rows: list[list[int]]) -> None:
    table.append(pa.table([pa.array(c, pa.int32()) for c in zip(*rows, strict=True)], schema=SCHEMA))


def levels(warehouse: Path, name: str) -> list[int]:
    table = open_catalog({"warehouse": str(warehouse)}).load_table(Identifier("db", name))
    return sorted(f.level for s in plan_select(table).splits for f in s.files)


def in_order(warehouse: Path, name: str) -> list[list[int]]:
    """The values of `a` of each bucket in the order of its file."""
    table = open_catalog({"warehouse": str(warehouse)}).load_table(Identifier("db", name))
    splits = sorted(plan_select(table).splits, key=lambda s: s.bucket)
    return [pa.Table.from_batches(read_split(table, s)).column("a").to_pylist() for s in splits]


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_cluster_one_table(tmp_path: Path, kind: str) -> None:
    catalog = connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "2", "bucket-key": "b", "bucket-append-ordered": "false", "clustering.incremental": "true"}
    names = ("mine", "theirs")
    for name in names:
        catalog.create_table(f"db.{name}", SCHEMA, options={**options, **KINDS[kind]})
    mine, expected = catalog.table("db.mine"), []
    read = {"do": "read", "table": "db.mine"}
    for turn in range(2):
        here, there = [[drawn(side + 10 * turn + i) for i in range(3)] for side in (0, 100)]
        for name in names:
            for rows in here:
                put(catalog.table(f"db.{name}"), rows)
        writes = [{"do": "write", "table": f"db.{name}", "rows": rows} for name in names for rows in there]
        answers = try_steps(tmp_path, writes, jar=Path(JAR))
        assert not any("error" in a for a in answers), answers
        expected += [row for rows in (*here, *there) for row in rows]
    assert set(levels(tmp_path, "mine")) == {0, 5}  # the writes have clustered, too
    mine.compact(full=True)
    both = {"do": "compact", "table": "db.theirs", "buckets": [[0], [1]]}
    answers = try_steps(tmp_path, [read, both, {"do": "read", "table": "db.theirs"}], jar=Path(JAR))
    assert not any("error" in a for a in answers), answers
    for found in (answers[0], answers[2]):
        assert sorted([int(v) for v in r] for r in found["rows"]) == sorted(expected)
    for name in names:
        assert levels(tmp_path, name) == [5, 5]
        assert sorted([r["a"], r["b"]] for r in catalog.table(f"db.{name}").to_arrow().to_pylist()) == sorted(expected)
    if kind != "hilbert":  # here, neighbours of a curve through many bits share a place
        assert in_order(tmp_path, "mine") == in_order(tmp_path, "theirs")
    assert mine.compact(full=True).snapshot_id is None
    assert catalog.table("db.theirs").compact(full=True).snapshot_id is None
    (again,) = try_steps(tmp_path, [{"do": "compact", "table": "db.mine", "buckets": [[0], [1]]}], jar=Path(JAR))
    assert "error" not in again, again
    assert levels(tmp_path, "mine") == [5, 5]

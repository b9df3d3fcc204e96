"""Chain tables written here and by Paimon: both sides read the same rows. Needs the jar of release 2.0 in `PEER_JAR`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from tests.peers.java_peer import try_steps
from tests.unit.engine.chain_tables import COLUMNS, OPTIONS, put, read

JAR = os.environ.get("PEER_JAR", "")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR, reason="only release 2.0 of Paimon has chain tables: give its jar in PEER_JAR"),
]
DAYS = [f"202508{day:02}" for day in range(1, 9)]
KINDS = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "orc": {"file.format": "orc"},
}


def create(catalog: Catalog, name: str, options: dict[str, str]) -> None:
    """Create a chain table and fill its branches with random rows, whose sequences are all different."""
    fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(COLUMNS.items())]
    schema = new_schema(fields, partition_keys=["dt"], primary_keys=["dt", "k"], options={**OPTIONS, **options})
    table = catalog.create_table(Identifier("db", name), schema)
    for branch in ("snapshot", "delta"):
        execute_create_branch(table, plan_create_branch(table, branch))
    rng, numbers = random.Random(name), list(range(2000))
    rng.shuffle(numbers)
    for day in DAYS:
        for branch, often, rows in (("snapshot", 0.3, 6), ("delta", 0.8, 4), ("delta", 0.8, 4), ("main", 0.1, 2)):
            if rng.random() < often:
                keys = rng.sample(range(10), rows)
                values = [(k, numbers.pop(), None if rng.random() < 0.3 else rng.choice("abc")) for k in keys]
                put(table, branch, day, *values)
    for branch in ("snapshot", "delta"):
        execute_compaction(plan_compaction(on_branch(table, branch), strategy=Strategy.FULL), LocalRunner())


def test_both_sides_read_the_same_rows(tmp_path: Path) -> None:
    catalog = open_catalog({"warehouse": str(tmp_path)})
    catalog.create_database("db", ignore_if_exists=True)
    steps = []
    for name, options in KINDS.items():
        create(catalog, name, options)
        wanted = {"do": "read", "table": f"db.{name}"}
        added = {"do": "write", "table": f"db.{name}$branch_delta", "rows": [[3, 5000, "p", DAYS[-1]]]}
        steps += [wanted, added, wanted]
    answers = iter(try_steps(tmp_path, steps, jar=Path(JAR)))
    for name in KINDS:
        before, written, after = next(answers), next(answers), next(answers)
        assert "error" not in {**before, **written, **after}, (name, before, written, after)
        table = catalog.load_table(Identifier("db", name))
        own = sorted([str(v) for v in row] for row in read(table))
        assert sorted([str(v) for v in row] for row in after["rows"]) == own, name
        assert before["rows"]

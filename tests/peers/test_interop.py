"""Tables written here are read by the peers, and what the peers then write is read here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.catalog.resolve import open_catalog
from tests.peers import tables
from tests.peers.java_peer import OLDEST, RELEASES, run_steps
from tests.variants import every

ROOT = Path(__file__).resolve().parents[2]
PYPAIMON = Path(os.environ.get("PAIMON_SPARK_PYPAIMON", ROOT / ".venv-peers" / "bin" / "python"))
BY_RELEASE = pytest.mark.parametrize("release", RELEASES)
BY_KIND = pytest.mark.parametrize("kind", every(2, tables.KINDS), ids=lambda k: k.name)


def pypaimon(warehouse: Path, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Run steps through pypaimon; a step that fails fails the test."""
    done = subprocess.run(
        [str(PYPAIMON), str(Path(__file__).with_name("pypaimon_peer.py")), str(warehouse)],
        input="\n".join(json.dumps(s) for s in steps),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a.get("error") for a in answers] == [None] * len(steps)
    return answers


def text(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows as JSON carries them to a peer."""
    return [[tables.plain(v) for v in r] for r in rows]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with one table of every kind, filled here."""
    place = tmp_path_factory.mktemp("interop")
    for kind in tables.KINDS:
        tables.fill(tables.create(place, kind), kind)
    return place


def open_table(warehouse: Path, kind: tables.Kind) -> tables.Table:
    """Open a table afresh."""
    return open_catalog({"warehouse": str(warehouse)}).load_table(tables.Identifier(tables.DATABASE, kind.name))


@BY_KIND
def test_pypaimon_reads_what_is_written_here(warehouse: Path, kind: tables.Kind) -> None:
    (answer,) = pypaimon(warehouse, {"do": "read", "table": f"{tables.DATABASE}.{kind.name}"})
    assert tables.comparable(answer["rows"]) == tables.rows_of(open_table(warehouse, kind))


@BY_KIND
def test_what_pypaimon_writes_is_read_here(tmp_path: Path, kind: tables.Kind) -> None:
    table = tables.create(tmp_path, kind)
    tables.fill(table, kind)
    if kind.name in {"pk_dynamic", "pk_partitioned_dynamic"}:
        pytest.skip("pypaimon does not keep the hash index of dynamic buckets")
    name = f"{tables.DATABASE}.{kind.name}"
    rows = [tables.changed(2), tables.row(60), tables.row(63)]
    _, answer = pypaimon(tmp_path, {"do": "write", "table": name, "rows": text(rows)}, {"do": "read", "table": name})
    assert tables.comparable(answer["rows"]) == tables.rows_of(open_table(tmp_path, kind))
    tables.fill(open_table(tmp_path, kind), kind)
    (answer,) = pypaimon(tmp_path, {"do": "read", "table": name})
    assert tables.comparable(answer["rows"]) == tables.rows_of(open_table(tmp_path, kind))


@pytest.mark.slow
@BY_RELEASE
def test_java_reads_every_snapshot_written_here(warehouse: Path, release: str) -> None:
    steps, expected = [], []
    for kind in tables.KINDS:
        table = open_table(warehouse, kind)
        for snapshot in table.snapshots.ids():
            steps.append({"do": "read", "table": f"{tables.DATABASE}.{kind.name}", "snapshot": snapshot})
            expected.append(tables.rows_of(table.with_options({"scan.snapshot-id": str(snapshot)})))
    answers = run_steps(warehouse, steps, release)
    for step, answer, rows in zip(steps, answers, expected, strict=True):
        assert tables.comparable(answer["rows"]) == rows, step


@pytest.mark.slow
@BY_RELEASE
def test_what_java_changes_is_read_here(tmp_path: Path, release: str) -> None:
    steps: list[dict[str, Any]] = []
    untold = ("dynamic", "tracked") if release == OLDEST else ("dynamic",)  # it does not know of row tracking
    kinds = [k for k in tables.KINDS if not any(word in k.name for word in untold)]
    for kind in kinds:
        tables.fill(tables.create(tmp_path, kind), kind)
        name = f"{tables.DATABASE}.{kind.name}"
        steps.append({"do": "write", "table": name, "rows": text([tables.changed(2), tables.row(60)])})
        if kind.upserts:
            steps.append({"do": "write", "table": name, "kind": "-D", "rows": text([tables.row(4)])})
        if kind.name == "pk_fixed":
            steps.append({"do": "compact", "table": name, "buckets": [[0], [1]]})
        if kind.name == "pk_partitioned":
            steps.append({"do": "compact", "table": name, "buckets": [["x", 0], ["y z", 1]]})
    run_steps(tmp_path, steps, release)
    _agree(tmp_path, kinds, release)
    for kind in kinds:
        tables.fill(open_table(tmp_path, kind), kind)
    _agree(tmp_path, kinds, release)


def _agree(warehouse: Path, kinds: list[tables.Kind], release: str) -> None:
    reads = [{"do": "read", "table": f"{tables.DATABASE}.{k.name}"} for k in kinds]
    answers = run_steps(warehouse, reads, release)
    for kind, answer in zip(kinds, answers, strict=True):
        assert tables.comparable(answer["rows"]) == tables.rows_of(open_table(warehouse, kind)), kind.name

"""Random histories of tables that Paimon keeps clustered by other columns than the key: each state is read as it reads it.

Needs the jar of release 2.0 in `PEER_JAR`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.read.superseded_rows import superseded_rows
from paimon_spark.engine.select import plan_select
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.invariants import violations
from tests.peers.trial_peer import TrialPeer
from tests.peers.trial_values import Row, from_arrow, from_peer, ordered

JAR = os.environ.get("PEER_JAR", "")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR, reason="only release 2.0 of Paimon clusters keyed tables: give its jar in PEER_JAR"),
]
NAME = "default.t"
COLUMNS = [["k", "INT"], ["c", "STRING"], ["v", "BIGINT"], ["d", "INT"]]
VECTORS = {"deletion-vectors.enabled": "true"}
COMMON = {
    "bucket": "1",
    "pk-clustering-override": "true",
    "clustering.columns": "c",
    "source.split.target-size": "1 kb",
    "source.split.open-file-cost": "100 b",
}
KINDS: Mapping[str, Mapping[str, str]] = {
    "vectors": VECTORS,
    "orc": {**VECTORS, "bucket": "2", "file.format": "orc"},
    "avro": {**VECTORS, "clustering.columns": "c,v", "target-file-size": "1 kb", "file.format": "avro"},
    "thin": {**VECTORS, "data-file.thin-mode": "true", "changelog-producer": "input"},
    "write-only": {**VECTORS, "write-only": "true"},
    "first row": {"merge-engine": "first-row"},
}
CONDITIONS: Mapping[str, Callable[[Row], bool]] = {
    "k = 7": lambda r: r[0] == 7,
    "k IN (1, 50, 99)": lambda r: r[0] in (1, 50, 99),
    "k BETWEEN 20 AND 40": lambda r: 20 <= _number(r[0]) <= 40,
    "c = 'bb'": lambda r: r[1] == "bb",
    "c IS NULL AND v > 0": lambda r: r[1] is None and _number(r[2]) > 0,
}


def _number(value: Any) -> int:
    assert isinstance(value, int)
    return value


def changed(random: Random, *, deletes: bool) -> list[list[Any]]:
    """Return rows to write, each with its kind in front."""
    kinds = ("+I",) * 6 + ("-D",) * deletes
    words, small = ("a", "bb", "z", "", None), (None, 1, 2)
    return [
        [
            random.choice(kinds),
            random.randrange(100),
            random.choice(words),
            random.randint(-50, 50),
            random.choice(small),
        ]
        for _ in range(random.randint(1, 50))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_state_is_read_as_there(tmp_path: Path, kind: str) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    random, options = Random(kind), {**COMMON, **KINDS[kind]}
    with TrialPeer(Path(JAR), warehouse) as peer:
        peer.ask("create", NAME, columns=COLUMNS, options=options, primaryKey=["k"], partition=[])
        for _ in range(10):
            peer.ask("write", NAME, rows=changed(random, deletes=kind != "first row"))
            if random.random() < 0.4:
                peer.ask("compactTable", NAME, full=random.random() < 0.5)
        clear_cache()
        handle = CatalogHandle(FileSystemCatalog(str(warehouse), {}, LocalFileIO())).table(NAME)
        table = handle.load()
        ids = table.snapshots.ids()
        states = peer.ask("states", NAME, tags=[], snapshots=ids)["states"]
    assert violations(table) == []
    for version, told in zip([None, *ids], states, strict=True):
        want = from_peer(told, table.schema.fields)
        assert ordered(from_arrow(handle.to_arrow(version=version), table.schema.fields)) == ordered(want)
        for condition, holds in CONDITIONS.items():
            found = from_arrow(handle.to_arrow(filter=condition, version=version), table.schema.fields)
            assert ordered(found) == ordered([r for r in want if holds(r)])
        plan = plan_select(table, version=version)
        left_out = sum(len(rows) for s in plan.splits for _, rows in superseded_rows(table, s))
        assert sum(s.file_rows for s in plan.splits) - left_out == len(want)

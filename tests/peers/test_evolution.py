"""Data evolution between releases: rows written here get other columns from Paimon, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.column_changes import update
from tests.peers.java_peer import run_steps

pytestmark = pytest.mark.peer
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob.target-file-size": "1 kb"}
SOON = {"compaction.min.file-num": "2", "source.split.open-file-cost": "1 b"}
COLUMNS = {"id": "INT", "image": "BLOB", "name": "STRING", "sound": "BLOB"}


def made_here(warehouse: Path) -> Table:
    catalog = open_catalog({"warehouse": str(warehouse)})
    catalog.create_database("db", ignore_if_exists=True)
    fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(COLUMNS.items())]
    return catalog.create_table(Identifier("db", "t"), new_schema(fields, options=OPTIONS))


def put(table: Table, rows: list[tuple[Any, ...]]) -> None:
    schema = to_arrow_schema(table.schema.fields)
    write_arrow(table, pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema.names))


def read_here(table: Table) -> list[list[Any]]:
    found = [list(r.values()) for r in read_arrow(table).to_pylist()]
    return sorted([[v.hex() if isinstance(v, bytes) else v for v in row] for row in found])


def test_blobs_and_columns_of_both_sides(tmp_path: Path) -> None:
    table = made_here(tmp_path)
    put(table, [(1, b"\x00\x01", "a", None), (2, None, "b", b""), (3, b"\xff" * 1500, "c", b"s")])
    put(table, [(4, b"", None, b"\x07" * 1100)])
    (answer,) = run_steps(tmp_path, [{"do": "read", "table": "db.t"}], program="EvolvingPeer")
    assert sorted(answer["rows"]) == read_here(table)
    steps = [
        {"do": "write", "rows": [[5, "0a0b", "e", None], [6, None, None, "0c"]]},
        {"do": "writeColumns", "columns": ["name"], "firstRowId": 0, "rows": [["A"], [None], ["C"]]},
        {"do": "writeColumns", "columns": ["name", "sound"], "firstRowId": 3, "rows": [["D", "dd"]]},
        {"do": "read"},
    ]
    answers = run_steps(tmp_path, [s | {"table": "db.t"} for s in steps], program="EvolvingPeer")
    assert sorted(answers[-1]["rows"]) == read_here(table)
    assert read_here(table)[3] == [4, "", "D", "dd"]
    put(table, [(7, b"7", "g", b"77")])
    (answer,) = run_steps(tmp_path, [{"do": "read", "table": "db.t"}], program="EvolvingPeer")
    assert sorted(answer["rows"]) == read_here(table)


@pytest.mark.slow
def test_columns_changed_and_compacted_here(tmp_path: Path) -> None:
    table = made_here(tmp_path).with_options(SOON)
    put(table, [(1, b"\x00\x01", "a", None), (2, None, "b", b""), (3, b"\xff" * 1500, "c", b"s")])
    put(table, [(4, b"", None, b"\x07" * 1100)])
    update(table, lambda r: r["id"] > 2, name="x")
    update(table, lambda r: r["id"] == 1, name=None)
    (answer,) = run_steps(tmp_path, [{"do": "read", "table": "db.t"}], program="EvolvingPeer")
    assert sorted(answer["rows"]) == read_here(table)
    assert read_here(table)[0] == [1, "0001", None, None]
    steps = [
        {"do": "writeColumns", "columns": ["name"], "firstRowId": 0, "rows": [["A"], [None], ["C"]]},
        {"do": "read"},
    ]
    answers = run_steps(tmp_path, [s | {"table": "db.t"} for s in steps], program="EvolvingPeer")
    assert sorted(answers[-1]["rows"]) == read_here(table)
    execute_compaction(plan_compaction(table), LocalRunner())
    assert len([e for e in scan(table, table.snapshots.latest()).entries if ".blob" not in e.file.file_name]) == 1
    (answer,) = run_steps(tmp_path, [{"do": "read", "table": "db.t"}], program="EvolvingPeer")
    assert sorted(answer["rows"]) == read_here(table)
    steps[0] |= {"columns": ["name", "sound"], "rows": [["i", "01"], ["j", None], ["k", "02"], [None, "03"]]}
    answers = run_steps(tmp_path, [s | {"table": "db.t"} for s in steps], program="EvolvingPeer")
    assert sorted(answers[-1]["rows"]) == read_here(table)
    assert read_here(table)[3] == [4, "", None, "03"]

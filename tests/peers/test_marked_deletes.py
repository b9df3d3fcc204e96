"""Tables with a primary key whose DELETE writes deletion vectors: Paimon reads them right after, and goes on
writing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import connect
from paimon_spark.api.table import TableHandle
from paimon_spark.spec.kinds import CommitKind
from tests.peers.java_peer import run_steps
from tests.variants import mostly_slow

NAME = "db.marked"
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
State = dict[int, str]
pytestmark = pytest.mark.peer


def put(table: TableHandle, state: State, rows: State) -> None:
    table.append(pa.table([pa.array(rows, pa.int32()), list(rows.values())], schema=SCHEMA))
    state.update(rows)


def delete(table: TableHandle, state: State, low: int, high: int) -> None:
    table.delete(f"k BETWEEN {low} AND {high}")
    assert table.load().snapshots.get(table.snapshots()[-1].id).commit_kind is CommitKind.OVERWRITE
    for k in [k for k in state if low <= k <= high]:
        del state[k]


def here(table: TableHandle) -> State:
    rows = table.to_arrow().to_pylist()
    found = {r["k"]: r["v"] for r in rows}
    assert len(found) == len(rows)
    return found


def read() -> dict[str, Any]:
    return {"do": "read", "table": NAME}


def there(answer: dict[str, Any]) -> State:
    found = {int(k): v for k, v in answer["rows"]}
    assert len(found) == len(answer["rows"])
    return found


@pytest.mark.parametrize("wide", mostly_slow(["false", "true"], "false"))
def test_paimon_reads_and_goes_on_writing(tmp_path: Path, wide: str) -> None:
    catalog = connect(tmp_path)
    catalog.create_database("db")
    options = {
        "bucket": "2",
        "deletion-vectors.enabled": "true",
        "deletion-vectors.mark-deletes": "true",
        "deletion-vectors.bitmap64": wide,
    }
    table = catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=options)
    state: State = {}
    put(table, state, {k: f"v{k}" for k in range(200)})
    delete(table, state, 10, 19)
    put(table, state, dict.fromkeys(range(15, 25), "new"))
    delete(table, state, 22, 40)
    added, gone = dict.fromkeys((12, 30, 35, 300), "java"), [50, 51, 16]
    first, _, _, second = run_steps(
        tmp_path,
        [
            read(),
            {"do": "write", "table": NAME, "rows": [[k, v] for k, v in added.items()]},
            {"do": "write", "table": NAME, "kind": "-D", "rows": [[k, "?"] for k in gone]},
            read(),
        ],
    )
    assert there(first) == state
    state = {k: v for k, v in {**state, **added}.items() if k not in gone}
    assert there(second) == state == here(table)
    delete(table, state, 30, 60)
    put(table, state, {31: "again"})
    answers = run_steps(tmp_path, [read(), {"do": "compact", "table": NAME, "buckets": [[0], [1]]}, read()])
    assert there(answers[0]) == there(answers[2]) == state == here(table)

"""Tables of Paimon whose files are sorted by other columns than the key: what is read of them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.read.superseded_rows import superseded_rows
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.system.tables import system_table
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import plan_write, write_arrow
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.features import check_creatable
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.invariants import violations
from tests.small_tables import rows, sorted_rows
from tests.tables.plain import DATABASE, unpacked

SAMPLES = Path(__file__).resolve().parents[2] / "tables"
SMALL = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
ROWS = [
    (1, "Bonn", 7),
    (2, "Zwickau", None),
    (3, "Aalen", 1),
    (4, "Aalen", 3),
    (5, None, 2),
    (6, "Bonn", -1),
    (7, "Trier", 4),
    (8, "Ahaus", 8),
    (10, "Celle", 6),
    (11, "Kiel", 5),
]
"""The rows of `pk_clustered`."""


def sample(tmp_path: Path, name: str = "pk_clustered") -> Table:
    catalog = unpacked(SAMPLES / f"{name}.tar.gz", tmp_path / name)
    return catalog.load_table(Identifier(DATABASE, name))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return sample(tmp_path)


def unclustered(table: Table) -> Table:
    """Return a table as writers have it that only add files of level 0."""
    values = {k: v for k, v in table.options.values.items() if k != "pk-clustering-override"}
    return replace(table, options=CoreOptions(values | {"write-only": "true"}))


@pytest.mark.parametrize("options", [{}, SMALL])
def test_each_file_is_read_by_itself(table: Table, options: dict[str, str]) -> None:
    table = table.with_options(options)
    plan = plan_select(table)
    assert sorted_rows(table) == ROWS
    assert {f.level for s in plan.splits for f in s.files} == {1}
    assert {s.raw for s in plan.splits} == {True, False}
    assert all(s.raw or any(f.delete_row_count for f in s.files) for s in plan.splits)
    left_out = sum(len(found) for s in plan.splits for _, found in superseded_rows(table, s))
    assert sum(s.file_rows for s in plan.splits) - left_out == len(ROWS)
    assert violations(table) == []


@pytest.mark.parametrize(
    "condition",
    ["id = 8", "id IN (1, 2, 9, 11)", "id > 6", "city = 'Aalen'", "city IS NULL", "n < 4 AND id < 5", "id = 9"],
)
def test_conditions(table: Table, condition: str) -> None:
    predicate = parse_filter(condition, table.schema)
    want = {
        "id = 8": [8],
        "id IN (1, 2, 9, 11)": [1, 2, 11],
        "id > 6": [7, 8, 10, 11],
        "city = 'Aalen'": [3, 4],
        "city IS NULL": [5],
        "n < 4 AND id < 5": [3, 4],
        "id = 9": [],
    }[condition]
    assert [r[0] for r in sorted_rows(table.with_options(SMALL), predicate=predicate)] == want


def test_files_are_skipped_by_the_clustering_columns(table: Table) -> None:
    table = table.with_options(SMALL)
    whole = sum(len(s.files) for s in plan_select(table).splits)
    one = plan_select(table, predicate=parse_filter("city = 'Zwickau'", table.schema))
    assert sum(len(s.files) for s in one.splits) < whole


def test_limits(table: Table) -> None:
    for limit in (1, 5, 10, 20):
        plan = plan_select(table.with_options(SMALL), limit=limit)
        assert sum(b.num_rows for b in read_batches(plan)) == min(limit, len(ROWS))


def test_waiting_rows_are_hidden(table: Table) -> None:
    values: dict[str, Any] = {
        "id": pa.array([1, 99], pa.int32()),
        "city": ["x", "y"],
        "n": pa.array([0, 0], pa.int64()),
    }
    write_arrow(unclustered(table), pa.table(values))
    levels = [e.file.level for e in scan(table, table.snapshots.latest()).entries]
    assert 0 in levels
    assert sorted_rows(table) == ROWS
    changes = {"incremental-between": f"{(table.snapshots.latest_id() or 0) - 1},{table.snapshots.latest_id()}"}
    assert sorted_rows(table.with_options(changes)) == [(1, "x", 0), (99, "y", 0)]


def test_the_audit_log_has_the_deletes(table: Table) -> None:
    plan = plan_select(table, how=ReadOptions(keep_kinds=True))
    found = pa.Table.from_batches(read_batches(plan)).to_pylist()
    assert sorted(r["id"] for r in found if r[ROW_KIND] == RowKind.DELETE) == [9]
    assert sorted(r["id"] for r in found if r[ROW_KIND] != RowKind.DELETE) == [r[0] for r in ROWS]


def test_the_table_without_merging_has_all_rows(table: Table) -> None:
    plan = plan_select(table, how=ReadOptions(top_level_only=True))
    assert sum(b.num_rows for b in read_batches(plan)) == len(ROWS)


def test_first_rows(tmp_path: Path) -> None:
    table = sample(tmp_path, "pk_clustered_first")
    assert sorted_rows(table) == [(1, "Ulm"), (2, "Bonn"), (3, "Kiel"), (4, "Aalen"), (5, "Trier")]
    assert all(s.raw for s in plan_select(table).splits)


def test_the_files_table_shows_the_clustering_columns(table: Table) -> None:
    found = system_table(table, "files").to_pylist()
    assert {(f["level"], f["min_key"], f["max_key"]) for f in found} == {
        (1, "[null, 2]", "[Zwickau, null]"),
        (1, "[Ahaus, 8]", "[Kiel, 5]"),
    }


def test_what_would_merge_files_is_refused(table: Table) -> None:
    states = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    for options, what in (
        ({"deletion-vectors.merge-on-read": "true"}, r"'deletion-vectors.merge-on-read' = 'true' cannot be read"),
        (states, r"Two states of table .* cannot be compared.*'delta'"),
    ):
        with pytest.raises(UnsupportedError, match=what):
            rows(table.with_options(options))
    bare = {k: v for k, v in table.options.values.items() if k != "deletion-vectors.enabled"}
    with pytest.raises(UnsupportedError, match="without deletion vectors cannot be read"):
        rows(replace(table, options=CoreOptions(bare)))
    with pytest.raises(UnsupportedError, match="cannot begin with its rows"):
        StreamSource(table).next_offset(StreamOffset(snapshot_id=1, scan_snapshot=True), limited=True, newest=3)


def test_writing_is_refused(table: Table) -> None:
    with pytest.raises(UnsupportedError, match=r"'pk-clustering-override' = 'true' cannot be written.*It can be read"):
        plan_write(table)
    with pytest.raises(UnsupportedError, match=r"'pk-clustering-override' = 'true' cannot be created"):
        check_creatable(table.schema)

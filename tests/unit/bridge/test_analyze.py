"""ANALYZE TABLE as the JVM runs it: plan, read the rows of the planned snapshot, store the statistics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.bridge.handlers.analyze import analyze_table, plan_analyze_table
from paimon_spark.bridge.handlers.catalog import load_table
from paimon_spark.bridge.handlers.scan import aggregate_rows
from paimon_spark.bridge.protocol import VERSION, CatalogInfo, Envelope, Request
from paimon_spark.core.metadata.statistics import statistics_of
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.spec.column_changes import AddColumn, RenameColumn
from paimon_spark.spec.evolution import SetOption
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import parse_atomic
from tests.unit.procedures.warehouse import Warehouse

NAME = Identifier("db", "t")
COLUMN = {"distinct_count": 1, "min": "1", "max": "1", "null_count": 0, "avg_len": 4, "max_len": 4}


class Session:
    """A session of Spark with settings, and its requests."""

    def __init__(self, house: Warehouse, conf: Mapping[str, str] | None = None) -> None:
        self.catalog = CatalogInfo(name="paimon", options={"warehouse": house.path})
        self.conf = {"spark.sql.session.timeZone": "UTC", **(conf or {})}

    def request(self, **args: Any) -> Request:
        return Request(Envelope(version=VERSION, session="s", conf=self.conf, catalog=self.catalog, args=args), None)

    def load(self, name: str = "t") -> Any:
        return load_table(self.request(database="db", name=name, travel={}, writes=False, options={}, views=True))

    def plan(self, *columns: str) -> Any:
        token = self.load()["token"]
        return plan_analyze_table(self.request(table=token, columns=columns, all_columns=not columns))

    def count(self, table: Any) -> int:
        """Return the number of rows, with every column read."""
        names = [f["name"] for f in table["schema"]["fields"]]
        asked = {"aggregates": [["count_rows", ""]], "group_by": []}
        read = {"columns": names, "predicate": None, "limit": None, "order": None, "options": {}}
        answer = aggregate_rows(self.request(table=table["token"], **read, **asked))
        return int(answer["rows"][0][0])

    def store(self, plan: Any, rows: int) -> None:
        args = {"rows": rows, "columns": dict.fromkeys(plan["columns"], COLUMN)}
        analyze_table(self.request(table=plan["table"]["token"], snapshot=plan["snapshot"], **args))


@pytest.fixture
def house(tmp_path: Path) -> Warehouse:
    """Return a catalog with an append table of two snapshots and two rows."""
    house = Warehouse(tmp_path)
    house.create("db.t", keys=(), bucket="-1")
    house.insert("db.t", (1, "a"))
    house.insert("db.t", (2, "b"))
    return house


def load(house: Warehouse) -> Table:
    return house.catalog.load_table(NAME)


@pytest.mark.parametrize(
    "key",
    [
        "scan.snapshot-id",
        "scan.version",
        "incremental-between",
        "scan.bucket",
        "scan.file-creation-time-millis",
    ],
)
def test_options_of_the_session_that_choose_rows_do_not_apply(house: Warehouse, key: str) -> None:
    values = {"incremental-between": "1,2", "scan.bucket": "7"}
    session = Session(house, {f"spark.paimon.{key}": values.get(key, "1")})
    plan = session.plan()
    assert (plan["snapshot"], plan["columns"], session.count(plan["table"])) == (2, ["k", "p"], 2)


def test_rows_are_those_of_the_own_branch(house: Warehouse) -> None:
    table = load(house)
    execute_create_branch(table, plan_create_branch(table, "b"))
    house.insert("db.t$branch_b", (7, "z"))
    house.catalog.alter_table(NAME, [SetOption("scan.fallback-branch", "b")])
    session = Session(house)
    assert session.count(session.load()) == 3
    assert session.count(session.plan()["table"]) == 2


def test_columns_are_those_of_the_newest_schema(house: Warehouse) -> None:
    house.catalog.alter_table(NAME, [RenameColumn(("k",), "n"), AddColumn(("x",), parse_atomic("INT"))])
    session = Session(house, {"spark.paimon.scan.snapshot-id": "1"})
    plan = session.plan("N", "x")
    assert (plan["columns"], session.count(plan["table"])) == (["n", "x"], 2)
    session.store(plan, 2)
    table = load(house)
    found = statistics_of(table, table.snapshots.latest())
    assert found is not None
    assert (found.snapshot_id, found.schema_id, list(found.col_stats)) == (2, table.schema.id, ["n", "x"])


def test_rows_are_those_of_the_planned_snapshot(house: Warehouse) -> None:
    session = Session(house)
    plan = session.plan()
    house.insert("db.t", (3, "c"))
    assert session.count(plan["table"]) == 2
    assert session.count(session.load()) == 3
    session.store(plan, 2)
    table = load(house)
    found = statistics_of(table, table.snapshots.latest())
    assert found is not None
    assert (found.snapshot_id, found.merged_record_count) == (2, 2)


def test_an_empty_table_has_nothing_to_analyze(tmp_path: Path) -> None:
    house = Warehouse(tmp_path)
    house.create("db.t")
    assert Session(house).plan("K") == {"snapshot": None, "table": None, "columns": ["k"]}

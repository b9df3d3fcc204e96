"""Actions on Spark: from the command, and as the program of spark-submit, as the guide runs them."""

from __future__ import annotations

import json
import shutil

import pytest

from paimon_spark.bridge.jars import spark_home
from paimon_spark.cli.env import ACTIONS_PROGRAM
from tests.end_to_end.programs import Place
from tests.unit.procedures.warehouse import Warehouse


@pytest.fixture
def tables(place: Place) -> Warehouse:
    """Two tables of equal layout; in `t` are two small files to compact in each partition."""
    house = Warehouse(place.warehouse)
    house.create("db.t")
    house.create("db.s")
    for k in (1, 2):
        house.insert("db.t", (k, "a"), (k, "b"))
    house.insert("db.s", (2, "a"), (3, "a"))
    return house


def answer(text: str) -> dict[str, object]:
    """Return the only row of a result in JSON, which follows what Spark says."""
    row: dict[str, object] = json.loads(text[text.index("[\n  {") :])[0]
    return row


def test_the_guide_s_compact_through_spark_submit(place: Place, tables: Warehouse) -> None:
    program = shutil.copy(ACTIONS_PROGRAM, place.directory / "paimon_actions.py")
    submit = [spark_home() / "bin/spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false", program]
    path = f"{place.warehouse}/db.db/t"
    done = place.run([*submit, "compact", "--path", path, "--format", "json"])
    assert answer(done.stdout)["status"] == "done"
    again = place.run([*submit, "compact", "--path", path, "--nothing-to-do-exits-3"], check=False)
    assert again.returncode == 3
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_merge_and_delete_on_spark(place: Place, tables: Warehouse) -> None:
    place_of = [
        "--database",
        "db",
        "--table",
        "t",
        "--format",
        "json",
        "--spark_conf",
        "spark.sql.shuffle.partitions=2",
    ]
    merged = place.cli(
        "merge_into",
        *place_of,
        *("--master", "local[2]", "--source_sql", "CREATE TEMPORARY VIEW v AS SELECT k, p FROM db.s WHERE p <> ';'"),
        *("--source_table", "v", "--on", "t.k = v.k AND t.p = v.p"),
        *("--merge_actions", "matched-delete,not-matched-insert", "--not_matched_insert_values", "*"),
    )
    assert json.loads(merged.stdout)[0]["result"] == "Success"
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (2, "b"), (3, "a")]
    deleted = place.cli("delete", *place_of, "--where", "k IN (SELECT k FROM db.s) AND p = 'b'")
    assert json.loads(deleted.stdout)[0]["status"] == "done"
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (3, "a")]
    assert {p for p in place.left_behind() if p != "warehouse"} == set()


@pytest.mark.slow
def test_an_error_on_spark_is_one_line_on_standard_error(place: Place, tables: Warehouse) -> None:
    asked = ["compact", "--database", "db", "--table", "no", "--format", "json", "--master", "local[1]"]
    done = place.cli(*asked, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("[TABLE_NOT_FOUND] ")
    assert "Traceback" not in done.stderr

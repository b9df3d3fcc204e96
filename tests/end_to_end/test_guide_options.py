"""The examples of dynamic options in Paimon's Flink guide, as they are printed there, through the stock spark-sql."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_spark.core.table import Table
from tests.end_to_end.programs import Place
from tests.end_to_end.test_guide_calls import table_t

BEFORE = 1697018248000
"""A second before the time that the guide's examples travel to."""


def aged(place: Place, name: str) -> Table:
    """Return a table of two snapshots, the first of which is from before the guide's time."""
    table = table_t(place, snapshots=2, name=name)
    snapshot = Path(table.path) / "snapshot" / "snapshot-1"
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"timeMillis": BEFORE}))
    return table


def run(place: Place, *statements: str) -> list[list[str]]:
    """Run statements in the stock program with a second catalog over the same warehouse; return what SELECTs print."""
    more = {
        "spark.sql.catalog.mycatalog": "paimon.spark.Catalog",
        "spark.sql.catalog.mycatalog.warehouse": str(place.warehouse),
    }
    conf = [part for key, value in more.items() for part in ("--conf", f"{key}={value}")]
    done = place.stock("spark-sql", *conf, "-e", "; ".join(["USE mycatalog", *statements]))
    return [line.split("\t") for line in done.stdout.splitlines() if not line.startswith("spark.paimon.")]


def test_a_session_option_of_one_table(place: Place) -> None:
    for name in ("default.T", "default.U"):
        aged(place, name)
    prices = run(
        place,
        "SET 'paimon.mycatalog.default.T.scan.timestamp-millis' = '1697018249000'",
        "SELECT max(price) FROM T",
        "SELECT max(price) FROM U",
        "SELECT max(price) FROM paimon.default.T",
        "RESET 'paimon.mycatalog.default.T.scan.timestamp-millis'",
        "SELECT max(price) FROM T",
    )
    assert prices == [["0"], ["1"], ["1"], ["1"]]


@pytest.mark.slow
def test_a_session_option_of_a_table_in_any_catalog(place: Place) -> None:
    for name in ("default.T", "other.T"):
        aged(place, name)
    prices = run(
        place,
        "SET 'paimon.*.default.T.scan.timestamp-millis' = '1697018249000'",
        "SELECT max(price) FROM T",
        "SELECT max(price) FROM paimon.default.T",
        "SELECT max(price) FROM other.T",
    )
    assert prices == [["0"], ["0"], ["1"]]


@pytest.mark.slow
def test_options_of_one_insert(place: Place) -> None:
    table = table_t(place, name="default.paimon_table")
    rows = run(
        place,
        "INSERT INTO paimon_table /*+ OPTIONS('sink.use-managed-memory-allocator'='true', "
        "'sink.managed.writer-buffer-memory'='256M') */ SELECT id + 10, price FROM paimon_table",
        "SELECT id FROM paimon_table ORDER BY id",
    )
    assert rows == [["1"], ["2"], ["11"], ["12"]]
    assert table.snapshots.latest_id() == 2

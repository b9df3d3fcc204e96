"""Every script of ``sql/`` runs, and answers what ``golden/`` holds; ``make golden`` rewrites that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sql.scripts import transcript

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
ELSEWHERE = {"examples/flights.sql", "examples/flight_streams.sql", "guide/quickstart.sql"}
"""Scripts with tests of their own: they need data, generate random rows, or start jobs with random ids."""
SCRIPTS = sorted(p.relative_to(ROOT / "sql").as_posix() for p in (ROOT / "sql").rglob("*.sql"))
VARIABLES = {
    "license": str(ROOT / "LICENSE"),
    "database": "nightly",
    "table": "orders",
    "day": "2026-01-31",
}
#: What a script expects to be there.
BEFORE = {
    "maintenance/nightly.sql": (
        "CREATE DATABASE paimon.nightly",
        "CREATE TABLE paimon.nightly.orders (id INT, state STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')",
        "INSERT INTO paimon.nightly.orders VALUES (1, 'new'), (2, 'new')",
        "INSERT INTO paimon.nightly.orders VALUES (1, 'paid')",
    )
}


@pytest.mark.parametrize("name", [s for s in SCRIPTS if s not in ELSEWHERE])
def test_script_answers_as_before(spark_app: SparkSession, tmp_path: Path, name: str) -> None:
    session = spark_app.newSession()
    for key, value in {**VARIABLES, "copies": str(tmp_path), "guarded": str(tmp_path / "guarded")}.items():
        session.conf.set(key, value)
    for statement in BEFORE.get(name, ()):
        session.sql(statement)
    said = transcript(session, ROOT / "sql" / name).replace(str(ROOT), "<here>")
    golden = GOLDEN / Path(name).with_suffix(".out")
    if os.environ.get("PAIMON_SPARK_ACCEPT"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(said, encoding="utf-8")
    assert golden.exists(), "run `make golden` and review what it writes"
    assert said == golden.read_text(encoding="utf-8")


def test_golden_answers_belong_to_scripts() -> None:
    kept = {p.relative_to(GOLDEN).with_suffix(".sql").as_posix() for p in GOLDEN.rglob("*.out")}
    assert kept <= set(SCRIPTS)

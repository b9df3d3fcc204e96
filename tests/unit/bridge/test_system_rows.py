"""System tables of the catalog, as the JVM gets their rows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paimon_spark.bridge.protocol import VERSION, CatalogInfo, Envelope
from paimon_spark.bridge.system_tables import system_rows
from tests.unit.procedures.warehouse import Warehouse


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Lima", "UTC"])
def test_partitions_have_the_time_of_their_newest_file(
    zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        house = Warehouse(tmp_path)
        house.create("db.t")
        before = time.time_ns() // 1_000_000
        house.insert("db.t", (1, "a"), (2, "b"))
        info = CatalogInfo(name="paimon", options={"warehouse": str(house.path)})
        envelope = Envelope(version=VERSION, session="s", conf={}, catalog=info, args={})
        found = system_rows(envelope, {"rows_of": "sys.partitions"}).to_pylist()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [(r["table_name"], r["partition_name"], r["record_count"]) for r in found] == [
        ("t", "p=a", 1),
        ("t", "p=b", 1),
    ]
    assert all(before <= r["last_file_creation_time"] <= before + 60_000 for r in found)
